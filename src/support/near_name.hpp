#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// The candidate that a name was most likely meant to be: one that differs in case, in a ":0" or a path in front alone,
/// or by the fewest edits (Levenshtein), at most a third of its length. Empty if none is that near.
/// Time: candidates x lengths squared; ask it for the few names that a person will read.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

} // namespace lathe
