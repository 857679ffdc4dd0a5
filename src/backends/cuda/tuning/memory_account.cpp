#include "backends/cuda/tuning/memory_account.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lathe::cuda {

Result<void> MemoryAccount::check(int device, std::size_t bytes, const std::string& what) const {
    if (!limit_) return {};
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(device);
    const std::size_t now = found == devices_.end() ? 0 : found->second.now;
    if (bytes <= *limit_ && now <= *limit_ - bytes) return {};
    return Error{ErrorCode::out_of_memory,
                 "no room for " + std::to_string((bytes + 1023) >> 10) + " KiB for " + what + ": " +
                     std::to_string(now >> 10) + " KiB of the limit of " + std::to_string(*limit_ >> 10) +
                     " KiB are in use",
                 "GPU " + std::to_string(device),
                 "use a smaller batch or a smaller --workspace, or raise LATHE_CUDA_MEMORY_LIMIT"};
}

void MemoryAccount::add(int device, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    live_[data] = {device, bytes};
    Use& use = devices_[device];
    use.now += bytes;
    use.peak = std::max(use.peak, use.now);
}

void MemoryAccount::remove(const void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(data);
    if (found == live_.end()) return;
    devices_[found->second.first].now -= found->second.second;
    live_.erase(found);
}

std::size_t MemoryAccount::used(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(device);
    return found == devices_.end() ? 0 : found->second.now;
}

std::size_t MemoryAccount::peak(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(device);
    return found == devices_.end() ? 0 : found->second.peak;
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
    double number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc() || !(number >= 0)) return std::nullopt;
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    int shift = -1;
    if (unit.empty() || unit == "B") shift = 0;
    if (unit == "K" || unit == "KB" || unit == "KiB") shift = 10;
    if (unit == "M" || unit == "MB" || unit == "MiB") shift = 20;
    if (unit == "G" || unit == "GB" || unit == "GiB") shift = 30;
    if (shift < 0) return std::nullopt;
    const double bytes = std::ldexp(number, shift);
    constexpr double most = 1e18;
    if (bytes > most) return std::nullopt;
    return static_cast<std::size_t>(bytes);
}

} // namespace lathe::cuda
