// Programs of registers as C++ statements.
#include "backends/cuda/generate/emit.hpp"

#include <array>

namespace lathe::cuda::generated {

namespace {

/// An instruction's expression; "" for one that has none.
std::string expression(const PointInstruction& code, const std::string& a, const std::string& b, const std::string& c,
                       bool exact) {
    const auto call = [&](const char* function) { return join(function, "(", a, ")"); };
    const auto call2 = [&](const char* function) { return join(function, "(", a, ", ", b, ")"); };
    const auto infix = [&](const char* sign) { return join(a, " ", sign, " ", b); };
    const auto truth = [](const std::string& condition) { return join("(", condition, ") ? 1.0f : 0.0f"); };
    switch (code.op) {
        case PointOp::input: return "";
        case PointOp::constant: return literal(code.x);
        case PointOp::add: return infix("+");
        case PointOp::sub: return infix("-");
        case PointOp::mul: return infix("*");
        case PointOp::div: return exact ? infix("/") : call2("quick_divide");
        case PointOp::min: return call2("smaller");
        case PointOp::max: return call2("larger");
        case PointOp::pow: return call2("powf");
        case PointOp::neg: return join("-", a);
        case PointOp::abs: return call("fabsf");
        case PointOp::exp: return call(exact ? "expf" : "quick_exp");
        case PointOp::log: return call("logf");
        case PointOp::sqrt: return call("root");
        case PointOp::reciprocal: return exact ? join("1.0f / ", a) : join("quick_divide(1.0f, ", a, ")");
        case PointOp::erf: return call("erff");
        case PointOp::tanh: return call("tanhf");
        case PointOp::sigmoid: return exact ? join("1.0f / (1.0f + expf(-", a, "))") : call("sigmoid");
        case PointOp::relu: return join("larger(", a, ", 0.0f)");
        case PointOp::clip: return join("smaller(larger(", a, ", ", code.x, "), ", code.y, ")");
        case PointOp::floor: return call("floorf");
        case PointOp::ceil: return call("ceilf");
        case PointOp::round: return call("round_even");
        case PointOp::sin: return call("sinf");
        case PointOp::cos: return call("cosf");
        case PointOp::equal: return truth(infix("=="));
        case PointOp::less: return truth(infix("<"));
        case PointOp::greater: return truth(infix(">"));
        case PointOp::logical_not: return truth(a + " == 0.0f");
        case PointOp::logical_and: return truth(a + " != 0.0f && " + b + " != 0.0f");
        case PointOp::logical_or: return truth(a + " != 0.0f || " + b + " != 0.0f");
        case PointOp::select: return join(a, " != 0.0f ? ", b, " : ", c);
        case PointOp::cast: return a;
        case PointOp::atan: return call("atanf");
    }
    return "";
}

} // namespace

Result<std::vector<std::string>> write_program(Source& source, const Pointwise& program,
                                               const std::vector<std::string>& inputs, bool exact) {
    std::array<std::string, 12> registers;
    for (std::size_t i = 0; i < program.code.size(); ++i) {
        const PointInstruction& code = program.code[i];
        const std::string name = join("t", i);
        const std::string made =
            code.op == PointOp::input
                ? inputs[code.a]
                : expression(code, registers[code.a % 12], registers[code.b % 12], registers[code.c % 12], exact);
        if (made.empty())
            return Error{ErrorCode::unsupported, "an instruction of a program that has no expression", "", ""};
        source.line("      const float ", name, " = ", made, ";");
        registers[i % 12] = name;
    }
    std::vector<std::string> results;
    for (const std::uint8_t from : program.results)
        results.push_back(registers[from % 12]);
    return results;
}

} // namespace lathe::cuda::generated
