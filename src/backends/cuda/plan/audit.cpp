#include "backends/cuda/plan/audit.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lathe::cuda {
namespace {

std::string precision_of(const FusedOp& op) { return op.tf32 ? "tf32" : to_string(op.compute); }

std::string why(const std::string& precision, const std::string& asked) {
    if (precision == asked) return "";
    if (asked == "int8") return "its input or weight is not quantised in the model (QuantizeLinear, DequantizeLinear)";
    return "the model computes it in " + precision;
}

/// Products that an int8 model leaves in floating point on purpose: those of attention, whose factors are both
/// activations with a softmax between. They are listed and part of every share, but not of what `check` asks for.
bool exempt(const FusedOp& op, Precision asked) {
    return asked == Precision::int8 && std::holds_alternative<Attention>(op.detail);
}

} // namespace

double Audit::share(const std::string& precision) const {
    double part = 0;
    double whole = 0;
    for (const Row& row : rows) {
        whole += static_cast<double>(row.macs);
        if (row.precision == precision) part += static_cast<double>(row.macs);
    }
    return whole == 0 ? 1 : part / whole;
}

Audit audit(const Plan& plan, Precision asked) {
    Audit result;
    const auto add = [&](const FusedOp& op) {
        if (op.macs == 0) return;
        const std::string precision = precision_of(op);
        const bool aside = exempt(op, asked);
        result.rows.push_back({op.name, precision,
                               aside ? "attention multiplies activations with each other, with a softmax between"
                                     : why(precision, lathe::to_string(asked)),
                               op.macs, 0, !aside});
    };
    for (const FusedOp& op : plan.ops) {
        if (const auto* chain = std::get_if<Chain>(&op.detail)) {
            std::for_each(chain->parts.begin(), chain->parts.end(), add);
        } else {
            add(op);
        }
    }
    return result;
}

Result<void> check(const Audit& audit, Precision asked, bool allow_fallback) {
    const std::string name = lathe::to_string(asked);
    Audit counted;
    std::copy_if(audit.rows.begin(), audit.rows.end(), std::back_inserter(counted.rows),
                 [](const Audit::Row& row) { return row.counted; });
    const double share = counted.share(name);
    if (allow_fallback || share >= 0.9) return {};
    std::string reasons;
    std::size_t told = 0;
    std::size_t others = 0;
    for (const Audit::Row& row : counted.rows) {
        if (row.precision == name) continue;
        if (told == 20) {
            ++others;
            continue;
        }
        ++told;
        reasons += "\n  " + row.op + ": " + row.precision + ", " + row.reason;
    }
    if (others != 0) reasons += "\n  and " + std::to_string(others) + " more";
    const auto percent = std::to_string(static_cast<int>(std::floor(share * 100)));
    return Error{ErrorCode::unsupported, "only " + percent + " % of the multiplications run in " + name + reasons, "",
                 name == "int8" ? "quantise the model first (lathe quantize --target cuda), or allow the fallback"
                                : "ask for another precision, or allow the fallback"};
}

} // namespace lathe::cuda
