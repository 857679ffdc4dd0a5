// Numbers beside a tensor along one axis: the same, reflected, the last or from the other end.
#include "backends/cuda/generate/emit.hpp"

namespace lathe::cuda::generated {

namespace {

struct Padded {
    Operand x, y;
    PadLine line;
    std::int64_t piece = 1;
};

Result<Padded> padded_of(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    Padded p;
    p.x = operand_of(plan, op.inputs[0]);
    p.y = operand_of(plan, op.outputs[0]);
    p.line = pad_line(x, y, std::get<Indexed>(op.detail).axis);
    p.piece = common_power(16 / static_cast<std::int64_t>(bytes_of(y.type)), p.line.inner);
    if (p.line.outer * p.line.wide * p.line.inner >= std::int64_t{1} << 31 ||
        p.line.outer * p.line.size * p.line.inner >= std::int64_t{1} << 31)
        return cannot("over 2^31 elements");
    return p;
}

} // namespace

Family pad_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto p = padded_of(op, plan);
    if (!p) return refused(p.error().message);
    Family family;
    for (const Vectors& each : vector_choices(p->piece, p->line.outer * p->line.wide * p->line.inner, target))
        family.variants.push_back(each.id());
    return family;
}

Result<GeneratedKernel> emit_pad(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Padded p, padded_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    const auto& detail = std::get<Indexed>(op.detail);
    const PadLine& line = p.line;
    if (line.inner % vectors.width != 0) return no_variant(variant);
    GeneratedKernel kernel;
    kernel.entry = "lathe_pad";
    const std::int64_t run = line.inner / vectors.width, total = line.outer * line.wide * run;
    std::vector<Operand> inputs{p.x};
    if (op.inputs.size() > 1) inputs.push_back(operand_of(plan, op.inputs[1]));
    Source s;
    open_pieces(s, kernel, inputs, {p.y}, vectors, total);
    s.line("    const u32 column = i % ", run, "u * ", vectors.width, "u, outer = i / ", run * line.wide, "u;");
    s.line("    int at = (int)(i / ", run, "u % ", line.wide, "u) - (", detail.number, ");");
    s.line("    ", storage(p.y.type), " y[", vectors.width, "];");
    const auto how = static_cast<Padding>(detail.mode);
    const std::int64_t size = line.size;
    switch (how) {
        case Padding::constant: break;
        case Padding::edge: s.line("    at = at < 0 ? 0 : at >= ", size, " ? ", size - 1, " : at;"); break;
        case Padding::wrap: s.line("    at = (at % ", size, " + ", size, ") % ", size, ";"); break;
        case Padding::reflect:
            if (size == 1) {
                s.line("    at = 0;");
            } else {
                s.line("    at = (at % ", 2 * (size - 1), " + ", 2 * (size - 1), ") % ", 2 * (size - 1), ";");
                s.line("    at = at < ", size, " ? at : ", 2 * (size - 1), " - at;");
            }
            break;
    }
    if (how == Padding::constant) {
        s.line("    if (at < 0 || at >= ", size, ") {");
        s.line("#pragma unroll");
        s.line("      for (int e = 0; e < ", vectors.width, "; ++e) y[e] = ", inputs.size() > 1 ? "p1[0]" : "0", ";");
        s.line("    } else {");
    } else {
        s.line("    {");
    }
    s.line("      load<", vectors.width, ">(p0 + (outer * ", size, "u + (u32)at) * ", line.inner, "u + column, y);");
    s.line("    }");
    s.line("    store<", vectors.width, ">(q0 + i * ", vectors.width, "u, y);");
    close_pieces(s, kernel);
    return kernel;
}

} // namespace lathe::cuda::generated
