// Rotary positions: a thread turns a vector of pairs, reading heads where they lie in their product.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <charconv>

namespace lathe::cuda::generated {

namespace {

struct Pairs {
    Operand x, cosines, sines, y;
    Rotary detail;
    RotaryTable table{Shape{1, 1, 1, 1}};
    Shape dims;
    std::int64_t width = 1; ///< most pairs a vector
    std::int64_t turned() const { return detail.turned_of(dims[3]); }
    std::int64_t half() const { return turned() / 2; }
    std::int64_t pairs() const { return dims[0] * dims[1] * dims[2] * (dims[3] / 2); }
};

Result<Pairs> pairs_of(const FusedOp& op, const Plan& plan) {
    Pairs p;
    p.detail = std::get<Rotary>(op.detail);
    p.x = operand_of(plan, op.inputs[0]);
    p.cosines = operand_of(plan, op.inputs[1]);
    p.sines = operand_of(plan, op.inputs[2]);
    p.y = operand_of(plan, op.outputs[0]);
    p.table = RotaryTable(plan.values[op.inputs[1]].dims);
    p.dims = plan.values[op.outputs[0]].dims;
    const std::int64_t most = element_count(plan.values[op.inputs[0]].dims);
    if (most >= std::int64_t{1} << 31 || 2 * p.pairs() >= std::int64_t{1} << 31)
        return Error{ErrorCode::unsupported, "over 2^31 elements", op.name, ""};
    // Vectors begin at their own size everywhere: in either half, each row, head and sample, and the tables.
    std::int64_t width = 16 / static_cast<std::int64_t>(std::max(bytes_of(p.x.type), bytes_of(p.cosines.type)));
    if (!p.detail.interleaved) width = common_power(width, p.half());
    for (const std::int64_t step : {p.detail.x.offset, p.detail.x.batch, p.detail.x.head, p.detail.x.row})
        width = common_power(width, step);
    p.width = p.detail.interleaved ? common_power(width, p.dims[3]) / 2 : width;
    if (p.turned() != p.dims[3]) p.width = common_power(common_power(p.width, p.half()), (p.dims[3] - p.turned()) / 2);
    if (p.width == 0) return Error{ErrorCode::unsupported, "pairs that are not aligned", op.name, ""};
    return p;
}

} // namespace

Family rotary_family(const FusedOp& op, const Plan& plan, const GeneratedTarget&) {
    const auto p = pairs_of(op, plan);
    if (!p) return refused(p.error().message);
    Family family;
    for (std::int64_t width = p->width; width > 0 && family.variants.size() < 2; width /= 2)
        family.variants.push_back(join("p", width));
    return family;
}

Result<GeneratedKernel> emit_rotary(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Pairs p, pairs_of(op, plan));
    std::int64_t v = 0;
    const char* end = variant.data() + variant.size();
    const auto read = std::from_chars(variant.data() + 1, end, v);
    if (variant.size() < 2 || variant[0] != 'p' || read.ec != std::errc() || read.ptr != end || v < 1 ||
        p.width % v != 0)
        return no_variant(variant);
    GeneratedKernel kernel;
    kernel.entry = "lathe_rotary";
    kernel.threads = usual_threads;
    const std::int64_t half = p.half(), total = p.pairs() / v, run = p.dims[3] / 2 / v;
    kernel.grid[0] = static_cast<std::uint32_t>(divided_up(total, usual_threads));
    const bool wide = p.table.width == p.turned();
    Source s;
    open_kernel(s, kernel, {p.x, p.cosines, p.sines}, {p.y});
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  const u32 i = block_x() * ", usual_threads, "u + thread_index();");
    s.line("  if (i >= ", total, "u) return;");
    // Neighbouring blocks take the heads of one row, which lie side by side in a product.
    s.line("  const u32 c = i % ", run, "u * ", v, "u, head = i / ", run, "u % ", p.dims[1], "u, row = i / ",
           run * p.dims[1], "u % ", p.dims[2], "u, sample = i / ", run * p.dims[1] * p.dims[2], "u;");
    s.line("  const u32 from = ", p.detail.x.offset, "u + sample * ", p.detail.x.batch, "u + head * ", p.detail.x.head,
           "u + row * ", p.detail.x.row, "u;");
    s.line("  const u32 at = sample * ", p.table.strides[0], "u + head * ", p.table.strides[1], "u + row * ",
           p.table.strides[2], "u;");
    s.line("  const u32 to = ((sample * ", p.dims[1], "u + head) * ", p.dims[2], "u + row) * ", p.dims[3], "u;");
    const auto load = [&](const char* name, std::int64_t count, const Operand& from, const char* pointer,
                          const std::string& place) {
        s.line("  ", storage(from.type), " ", name, "[", count, "];");
        s.line("  load<", count, ">(", pointer, " + (", place, "), ", name, ");");
    };
    if (p.turned() != p.dims[3]) { // behind what is turned: as it is
        s.line("  if (c >= ", half, "u) {");
        for (const std::string& at : {std::string("2u * c"), join("2u * c + ", v, "u")}) {
            s.line("    {");
            load("x", v, p.x, "p0", "from + " + at);
            s.line("    ", storage(p.y.type), " y[", v, "];");
            s.line("#pragma unroll");
            s.line("    for (int e = 0; e < ", v, "; ++e) y[e] = ", from_float(p.y.type, to_float(p.x.type, "x[e]")),
                   ";");
            s.line("    store<", v, ">(q0 + (to + ", at, "), y);");
            s.line("    }");
        }
        s.line("    return;");
        s.line("  }");
    }
    // Pair e: numbers a and b, turned by cosine and sine e of each.
    const std::string first_table = p.detail.interleaved && wide ? "at + 2u * c" : "at + c";
    const std::int64_t tables = p.detail.interleaved && wide ? 2 * v : v;
    load("c1", tables, p.cosines, "p1", first_table);
    load("s1", tables, p.sines, "p2", first_table);
    if (!p.detail.interleaved && wide) {
        load("c2", v, p.cosines, "p1", join("at + ", half, "u + c"));
        load("s2", v, p.sines, "p2", join("at + ", half, "u + c"));
    }
    if (p.detail.interleaved) {
        load("x", 2 * v, p.x, "p0", "from + 2u * c");
        s.line("  ", storage(p.y.type), " y[", 2 * v, "];");
    } else {
        load("x1", v, p.x, "p0", "from + c");
        load("x2", v, p.x, "p0", join("from + ", half, "u + c"));
        s.line("  ", storage(p.y.type), " y1[", v, "], y2[", v, "];");
    }
    const auto element = [&](const Operand& from, const std::string& name) { return to_float(from.type, name); };
    const bool turns = p.detail.interleaved;
    s.line("#pragma unroll");
    s.line("  for (int e = 0; e < ", v, "; ++e) {");
    s.line("    const float a = ", element(p.x, turns ? "x[2 * e]" : "x1[e]"),
           ", b = ", element(p.x, turns ? "x[2 * e + 1]" : "x2[e]"), ";");
    const std::string c1 = turns && wide ? "c1[2 * e]" : "c1[e]", s1 = turns && wide ? "s1[2 * e]" : "s1[e]";
    const std::string c2 = !wide ? "c1[e]" : turns ? "c1[2 * e + 1]" : "c2[e]";
    const std::string s2 = !wide ? "s1[e]" : turns ? "s1[2 * e + 1]" : "s2[e]";
    s.line("    ", turns ? "y[2 * e]" : "y1[e]", " = ",
           from_float(p.y.type, "a * " + element(p.cosines, c1) + " - b * " + element(p.sines, s1)), ";");
    s.line("    ", turns ? "y[2 * e + 1]" : "y2[e]", " = ",
           from_float(p.y.type, "b * " + element(p.cosines, c2) + " + a * " + element(p.sines, s2)), ";");
    s.line("  }");
    if (turns) {
        s.line("  store<", 2 * v, ">(q0 + (to + 2u * c), y);");
    } else {
        s.line("  store<", v, ">(q0 + (to + c), y1);");
        s.line("  store<", v, ">(q0 + (to + ", half, "u + c), y2);");
    }
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

} // namespace lathe::cuda::generated
