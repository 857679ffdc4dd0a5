#include "support/near_name.hpp"

#include <algorithm>
#include <cctype>

#include "support/edit_distance.hpp"

namespace lathe {
namespace {

/// In lower case, without an output number (":0") behind.
std::string folded(std::string_view name) {
    const std::size_t colon = name.rfind(':');
    const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    if (colon != std::string_view::npos && colon + 1 < name.size() &&
        std::ranges::all_of(name.substr(colon + 1), digit)) {
        name = name.substr(0, colon);
    }
    std::string text(name);
    for (char& c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

/// "b/c" of "/a/b/c" and "b/c".
bool ends_in_path(std::string_view longer, std::string_view shorter) {
    return !shorter.empty() && longer.size() > shorter.size() && longer.ends_with(shorter) &&
           (shorter.front() == '/' || longer[longer.size() - shorter.size() - 1] == '/');
}

} // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
    const std::string wanted = folded(name);
    const std::string* best = nullptr;
    std::size_t least = std::max<std::size_t>(1, wanted.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        if (candidate.empty() || candidate == name) continue;
        const std::string other = folded(candidate);
        std::size_t distance = 1;
        if (other == wanted) {
            distance = 0;
        } else if (!ends_in_path(wanted, other) && !ends_in_path(other, wanted)) {
            const std::size_t gap = std::max(wanted.size(), other.size()) - std::min(wanted.size(), other.size());
            if (gap >= least) continue;
            distance = edit_distance(wanted, other);
        }
        if (distance < least) {
            least = distance;
            best = &candidate;
        }
    }
    return best == nullptr ? "" : *best;
}

} // namespace lathe
