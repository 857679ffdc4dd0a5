#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lathe/types.hpp"
#include "support/json.hpp"

namespace lathe {

/// When two tensors count as equal. A tensor passes if max |a - b| <= atol + rtol * max |a|, a being the first model's;
/// with `min_sqnr_db` if the SQNR is at least that. Integers and booleans must be equal.
struct Tolerance {
    double atol = 1e-6;
    double rtol = 1e-3;
    std::optional<double> min_sqnr_db;
};

/// How far one tensor of the second model is from the first model's.
struct TensorDifference {
    std::string tensor;
    Shape shape;
    double max_abs = 0;   ///< max |a - b|
    double max_rel = 0;   ///< max |a - b| / |a| over elements with a != 0
    double magnitude = 0; ///< max |a|
    double sqnr_db = 0;   ///< 20 log10(|a| / |a - b|); infinite where equal
    double cosine = 1;    ///< of a and b; two tensors of zeros count as 1, one as 0
    /// Share of rows (last axis) whose greatest element is at the same place, or of equal integers. Absent for floats
    /// of rank 0 and 1.
    std::optional<double> agreement;
    std::string problem; ///< why no figure is given: other shape, other type, NaN on one side alone
    bool past = false;   ///< the tolerance
};

/// Elements that are NaN on both sides, or the same infinity, are equal.
TensorDifference difference_of(const HostTensor& a, const HostTensor& b, const Tolerance& tolerance);

Json to_json(const TensorDifference& difference);

} // namespace lathe
