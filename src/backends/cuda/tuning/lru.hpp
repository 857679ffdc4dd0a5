#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace lathe::cuda {

/// Keeps the `capacity` most recently used entries. One thread at a time.
template <class Key, class T, class Hash = std::hash<Key>>
class LruCache {
public:
    explicit LruCache(std::size_t capacity) : capacity_(capacity) {}
    T* find(const Key& key) {
        const auto found = index_.find(key);
        if (found == index_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &found->second->second;
    }
    T& insert(Key key, T value) {
        if (entries_.size() == capacity_) {
            index_.erase(entries_.back().first);
            entries_.pop_back();
        }
        entries_.emplace_front(key, std::move(value));
        index_.emplace(std::move(key), entries_.begin());
        return entries_.front().second;
    }
    std::size_t size() const { return entries_.size(); }

private:
    std::size_t capacity_;
    std::list<std::pair<Key, T>> entries_;
    std::unordered_map<Key, typename std::list<std::pair<Key, T>>::iterator, Hash> index_;
};

} // namespace lathe::cuda
