#pragma once

#include <vector>

#include "backends/cuda/plan/interpret.hpp"

namespace lathe::cuda {

/// Values of a plan while it is interpreted: logical row-major over `dims` whatever the layout, numbers as stored
/// (int8 without its scale).
using Numbers = std::vector<double>;

struct Interpretation {
    const Plan& plan;
    InterpretOptions options;
    std::vector<Numbers> values;

    const Numbers& of(ValueId id) const { return values[id]; }
    const Value& value(ValueId id) const { return plan.values[id]; }
    const Numbers& input(const FusedOp& op, std::size_t i) const { return values[op.inputs[i]]; }
    /// Real numbers: int8 without its zero point, times its scale.
    Numbers real(ValueId id) const;
    /// Stores real numbers in the value's type.
    void store_real(ValueId id, Numbers numbers);
    /// Stores numbers that are in the value's own steps already.
    void store(ValueId id, Numbers numbers);
    Numbers weight(WeightId id) const;
};

/// One rounding to a type: halves to even, int8 clamped. Integers are cut off.
double rounded(double value, ElementType type, bool round);
/// A whole number modulo what an integer type of up to 32 bits holds; others as they are.
double wrapped(double value, ElementType type);
double activated(const Epilogue& epilogue, double value);
double activated(Activation act, double value, double low, double high, double alpha);

Result<void> interpret_op(Interpretation& state, const FusedOp& op);

} // namespace lathe::cuda
