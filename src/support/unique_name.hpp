#pragma once

#include <set>
#include <string>

namespace lathe {

/// The name, or the name with a number behind it where it is taken ("a-2"); then it is taken.
inline std::string unique_name(const std::string& wanted, std::set<std::string>& taken) {
    std::string name = wanted;
    for (int number = 2; !taken.insert(name).second; ++number)
        name = wanted + "-" + std::to_string(number);
    return name;
}

} // namespace lathe
