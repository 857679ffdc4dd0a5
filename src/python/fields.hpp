#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>

namespace lathe::python {

/// The field of `options`, or `otherwise` where it is not there or None.
template <class T>
T field(const nanobind::dict& options, const char* name, T otherwise) {
    if (!options.contains(name)) return otherwise;
    const nanobind::object value = options[name];
    return value.is_none() ? otherwise : nanobind::cast<T>(value);
}

/// The field of `options`; nothing where it is not there or None.
template <class T>
std::optional<T> optional_field(const nanobind::dict& options, const char* name) {
    if (!options.contains(name) || options[name].is_none()) return std::nullopt;
    return nanobind::cast<T>(options[name]);
}

/// What `told_of` tells of each.
template <class T>
nanobind::list list_of(const std::vector<T>& values, nanobind::dict (*told_of)(const std::type_identity_t<T>&)) {
    nanobind::list list;
    for (const T& value : values)
        list.append(told_of(value));
    return list;
}

} // namespace lathe::python
