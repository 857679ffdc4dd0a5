// Numbers whose place along one axis is told by indices: GatherElements.
#include "backends/cuda/generate/emit.hpp"
#include "backends/cuda/plan/index_map.hpp"

namespace lathe::cuda::generated {

namespace {

struct Places {
    Operand x, indices, y;
    Shape dims, x_strides, index_strides; ///< the result's; index_strides: 0 where an index is for all
    std::int64_t size = 0;                ///< of x along the axis
    std::size_t axis = 0;
    std::int64_t piece = 1;
};

Result<Places> places_of(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const Value &x = plan.values[op.inputs[0]], &indices = plan.values[op.inputs[1]], &y = plan.values[op.outputs[0]];
    Places p;
    p.x = operand_of(plan, op.inputs[0]);
    p.indices = operand_of(plan, op.inputs[1]);
    p.y = operand_of(plan, op.outputs[0]);
    if (p.indices.type != ElementType::s32 && p.indices.type != ElementType::s64)
        return cannot("indices that are not integers");
    constexpr std::int64_t most = std::int64_t{1} << 31;
    if (y.dims.empty() || element_count(x.dims) >= most || element_count(y.dims) >= most)
        return cannot("a single number, or over 2^31 elements");
    p.dims = y.dims;
    p.x_strides = strides_of(x.dims);
    p.index_strides = strides_of(indices.dims);
    for (std::size_t k = 0; k < p.dims.size(); ++k)
        if (indices.dims[k] == 1) p.index_strides[k] = 0;
    p.axis = static_cast<std::size_t>(std::get<Indexed>(op.detail).axis);
    p.size = x.dims[p.axis];
    p.piece = common_power(16 / static_cast<std::int64_t>(bytes_of(y.type)), p.dims.back());
    return p;
}

} // namespace

Family places_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto p = places_of(op, plan);
    if (!p) return refused(p.error().message);
    Family family;
    for (const Vectors& each : vector_choices(p->piece, element_count(p->dims), target))
        if (each.count <= 2) family.variants.push_back(each.id());
    return family;
}

Result<GeneratedKernel> emit_places(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Places p, places_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    if (p.dims.back() % vectors.width != 0) return no_variant(variant);
    GeneratedKernel kernel;
    kernel.entry = "lathe_places";
    const std::size_t last = p.dims.size() - 1;
    const std::int64_t run = p.dims.back() / vectors.width;
    Source s;
    open_pieces(s, kernel, {p.x, p.indices}, {p.y}, vectors, element_count(p.dims) / vectors.width);
    s.line("    const u32 column = i % ", run, "u * ", vectors.width, "u;");
    s.line("    u32 rest = i / ", run, "u, from = 0, index = 0;");
    for (std::size_t k = last; k-- > 0;) {
        s.line("    const u32 c", k, " = rest % ", p.dims[k], "u;");
        if (k != p.axis) s.line("    from += c", k, " * ", p.x_strides[k], "u;");
        s.line("    index += c", k, " * ", p.index_strides[k], "u;");
        s.line("    rest /= ", p.dims[k], "u;");
    }
    s.line("    ", storage(p.y.type), " y[", vectors.width, "];");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", vectors.width, "; ++e) {");
    s.line("      i64 at = p1[index", p.index_strides[last] != 0 ? " + column + (u32)e" : "", "];");
    s.line("      if (at < 0) at += ", p.size, ";");
    // never outside
    s.line("      at = at < 0 ? 0 : at >= ", p.size, " ? ", p.size - 1, " : at;");
    s.line("      y[e] = p0[from + (u32)at * ", p.x_strides[p.axis], "u", p.axis != last ? " + column + (u32)e" : "",
           "];");
    s.line("    }");
    s.line("    store<", vectors.width, ">(q0 + i * ", vectors.width, "u, y);");
    close_pieces(s, kernel);
    return kernel;
}

} // namespace lathe::cuda::generated
