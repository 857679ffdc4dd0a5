#pragma once

#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Multiply-accumulates (and, where timed, milliseconds) of conv and gemm by the precision they really run in.
struct Audit {
    struct Row {
        std::string op, precision, reason;
        std::int64_t macs = 0;
        double milliseconds = 0;
        bool counted = true; ///< by `check`; attention under int8 is not
    };
    std::vector<Row> rows;
    double share(const std::string& precision) const; ///< of all macs
};
Audit audit(const Plan& plan, Precision asked);
/// Fails (unsupported, the reasons by layer) where less than 90 % of the counted macs run in what was asked, unless
/// allowed.
Result<void> check(const Audit& audit, Precision asked, bool allow_fallback);

} // namespace lathe::cuda
