#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "lathe/data.hpp"
#include "lathe/model.hpp"

namespace lathe::python {

/// A model in Python's hands; Model itself is not complete in the public interface.
struct HeldModel {
    std::shared_ptr<Model> model;
};

/// `data`: a path, or a dict of arrays by input name (or one array for the only input), with labels or without.
Data data_of(nanobind::handle data, const std::optional<std::vector<std::int64_t>>& labels, const std::string& columns);

} // namespace lathe::python
