#pragma once

#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include "lathe/engine_types.hpp"
#include "lathe/evaluate.hpp"
#include "python/errors.hpp"

namespace lathe::python {

/// (value, low, high), as Measured in lathe/_results.py takes it; None where it was not measured.
inline nanobind::object measured(const std::optional<Measured>& figure) {
    if (!figure) return nanobind::none();
    return nanobind::make_tuple(figure->value, figure->low, figure->high);
}

/// invalid_argument, with the names that exist, for any other text.
inline Precision precision_named(const std::string& name) {
    if (const auto precision = precision_from_name(name)) return *precision;
    throw Failure({ErrorCode::invalid_argument, "no precision is called \"" + name + "\"", "precision",
                   "choose from fp32, tf32, bf16, fp16, int8"});
}

/// Whether layers that int8 turns into noise stay in float. invalid_argument for other texts than "auto" and "int8".
inline bool noisy_in_float_named(const std::string& name) {
    if (name == "auto" || name == "int8") return name == "auto";
    throw Failure({ErrorCode::invalid_argument, "noisy layers are not treated as \"" + name + "\"", "noisy_layers",
                   "choose from auto, int8"});
}

} // namespace lathe::python
