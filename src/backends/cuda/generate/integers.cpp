// ONNX's arithmetic of whole numbers as expressions: what plan/whole_numbers.hpp computes, in 64 bits.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>

namespace lathe::cuda::generated {

bool computes_integers(const FusedOp& op, const Plan& plan) {
    const auto* indexed = std::get_if<Indexed>(&op.detail);
    if (indexed == nullptr || indexed->kind != IndexedKind::arithmetic || indexed->first != 0) return false;
    const auto fits = [&](ValueId id) {
        const ElementType type = plan.values[id].type;
        return (is_whole(type) && type != ElementType::u64) || type == ElementType::boolean;
    };
    return std::ranges::all_of(op.inputs, fits) && std::ranges::all_of(op.outputs, fits) &&
           !integer_expression(static_cast<Integer>(indexed->mode), "a", "b", "c").empty();
}

std::string integer_expression(Integer how, const std::string& a, const std::string& b, const std::string& c) {
    const auto wrapped = [](const std::string& x, const char* with, const std::string& y) {
        return "(i64)((u64)(" + x + ")" + with + "(u64)(" + y + "))";
    };
    const auto choice = [](const std::string& condition, const std::string& yes, const std::string& no) {
        return "((" + condition + ") ? (i64)(" + yes + ") : (i64)(" + no + "))";
    };
    switch (how) {
        case Integer::add: return wrapped(a, " + ", b);
        case Integer::subtract: return wrapped(a, " - ", b);
        case Integer::multiply: return wrapped(a, " * ", b);
        case Integer::smallest: return choice(a + " < " + b, a, b);
        case Integer::largest: return choice(a + " < " + b, b, a);
        case Integer::bits_and: return "(" + a + " & " + b + ")";
        case Integer::bits_or: return "(" + a + " | " + b + ")";
        case Integer::bits_xor: return "(" + a + " ^ " + b + ")";
        case Integer::equal: return choice(a + " == " + b, "1", "0");
        case Integer::less: return choice(a + " < " + b, "1", "0");
        case Integer::greater: return choice(a + " > " + b, "1", "0");
        case Integer::less_equal: return choice(a + " <= " + b, "1", "0");
        case Integer::greater_equal: return choice(a + " >= " + b, "1", "0");
        case Integer::negate: return wrapped("0", " - ", a);
        case Integer::absolute: return choice(a + " < 0", wrapped("0", " - ", a), a);
        case Integer::convert: return a;
        case Integer::bits_not: return "(~" + a + ")";
        case Integer::sign: return choice(a + " == 0", "0", choice(a + " < 0", "-1", "1"));
        case Integer::choose: return choice(a + " != 0", b, c);
        default: return ""; // quotients, shifts and powers: the general kernel has their rules
    }
}

} // namespace lathe::cuda::generated
