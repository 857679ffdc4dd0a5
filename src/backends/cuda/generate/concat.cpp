// Concatenation in one kernel: a vector of the result picks its input by its place in the row.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>

namespace lathe::cuda::generated {

namespace {

struct Part {
    Operand operand;
    std::int64_t begin = 0;  ///< first column of the result's row
    std::int64_t stride = 0; ///< elements from row to row of the input
};
struct Rows {
    std::vector<Part> parts;
    Operand result;
    ElementType joined = ElementType::f32; ///< before the program; the result's type without one
    std::int64_t rows = 1, columns = 1;    ///< of the result
    std::int64_t valid = 1;                ///< columns that come from an input; zeros behind
    std::int64_t piece = 1;                ///< elements that always come from one input, aligned
    std::int64_t turns = 1;                ///< interleaved: how many parts take turns
    std::vector<Operand> operands;         ///< of the program, with a stride along the row
};

Result<Rows> rows_of(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<Concat>(op.detail);
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const Value& y = plan.values[op.outputs[0]];
    const View to = view_of(y);
    auto axis = static_cast<std::size_t>(detail.axis < 0 ? detail.axis + static_cast<std::int64_t>(y.dims.size())
                                                         : detail.axis);
    if (to.nhwc() && y.dims.size() == 3 && axis == 2) axis = 3;
    const auto order = to.order();
    const auto at = static_cast<std::size_t>(std::find(order.begin(), order.end(), axis) - order.begin());
    Rows rows;
    rows.result = operand_of(plan, op.outputs[0]);
    rows.joined = detail.joined == none ? y.type : plan.values[detail.joined].type;
    const auto extent = [](const View& view, std::size_t d) {
        return view.nhwc() && d == 1 ? view.channel_stride : view.dims[d];
    };
    for (std::size_t i = 0; i < order.size(); ++i)
        (i < at ? rows.rows : rows.columns) *= extent(to, order[i]);
    std::int64_t begin = 0;
    const std::vector<ValueId> joined(op.inputs.begin(),
                                      op.inputs.end() - static_cast<std::ptrdiff_t>(detail.operands));
    for (const ValueId id : joined) {
        const Value& x = plan.values[id];
        if (element_count(x.dims) == 0) continue;
        const View from = view_of(x);
        if (x.layout != y.layout || from.dims.size() != to.dims.size()) return cannot("inputs of several layouts");
        if ((x.part || y.part) && (axis != 1 || detail.interleaved || y.part)) return cannot("parts of images");
        if (x.type == ElementType::s8 && (x.scale != y.scale || !detail.program.code.empty()))
            return cannot("inputs of several scales");
        if (x.type != rows.joined && (!is_real(x.type) || !is_real(rows.joined) || detail.interleaved))
            return cannot("inputs of several types");
        Part part;
        part.operand = operand_of(plan, id);
        part.begin = begin;
        part.stride = 1;
        std::int64_t run = from.dims[axis];
        for (std::size_t i = at; i < order.size(); ++i) {
            part.stride *= extent(from, order[i]);
            if (i == at) continue;
            run *= extent(from, order[i]);
            if (extent(from, order[i]) != extent(to, order[i])) return cannot("inputs of several paddings");
        }
        if (x.part) part.stride = from.pitch;
        begin += run;
        rows.piece = common_power(common_power(rows.piece == 1 && rows.parts.empty() ? 16 : rows.piece, part.begin),
                                  part.stride);
        rows.parts.push_back(std::move(part));
    }
    if (rows.parts.empty()) return cannot("no input has an element");
    if (rows.parts.size() > 64) return cannot("more than 64 inputs");
    rows.valid = begin;
    rows.piece = common_power(rows.piece, rows.valid);
    if (detail.interleaved) {
        if (!to.nhwc() || axis != 1) return cannot("interleaved other than an image's channels");
        rows.turns = static_cast<std::int64_t>(rows.parts.size());
        rows.piece = 16;
        for (const Part& part : rows.parts)
            rows.piece = common_power(rows.piece, part.stride);
    }
    for (auto id = op.inputs.begin() + static_cast<std::ptrdiff_t>(joined.size()); id != op.inputs.end(); ++id) {
        const Value& x = plan.values[*id];
        const std::int64_t count = element_count(x.dims);
        if (x.layout != Layout::linear || (count != 1 && count != rows.valid))
            return cannot("a program's operand that is not by channel");
        rows.operands.push_back(operand_of(plan, *id));
        rows.operands.back().strides = {count == 1 ? 0 : 1};
    }
    return rows;
}

/// Elements of one input for a vector of the result.
std::int64_t piece_of(const Rows& rows, std::int64_t width) {
    return std::min(rows.piece, width / (rows.turns > 1 && width % rows.turns == 0 ? rows.turns : 1));
}

std::int64_t width_of(const Rows& rows) {
    return common_power(16 / static_cast<std::int64_t>(bytes_of(rows.joined)), rows.columns);
}

/// A choice between parts by column, as nested conditions: `say(i)` of the part.
template <class Say>
std::string choice(const Rows& rows, std::size_t first, std::size_t last, const std::string& suffix, Say say) {
    if (last - first == 1) return say(first);
    const std::size_t middle = first + (last - first) / 2;
    return join("(c < ", rows.parts[middle].begin, suffix, " ? ", choice(rows, first, middle, suffix, say), " : ",
                choice(rows, middle, last, suffix, say), ")");
}

/// Loads a vector whose pieces come from one part each: `i`, `row` are known. Floats of another type are converted.
void write_parts(Source& s, const Rows& rows, std::int64_t width, std::int64_t piece, const std::string& index,
                 const std::string& u) {
    const std::int64_t run = rows.columns / width;
    const ElementType type = rows.joined, first = rows.parts.front().operand.type;
    const bool alike = std::ranges::all_of(rows.parts, [&](const Part& part) { return part.operand.type == first; });
    const auto from = [&](std::size_t i) {
        const Part& part = rows.parts[i];
        return join("p", i, " + (row * ", part.stride, u, part.begin == 0 ? "" : " - ",
                    part.begin == 0 ? std::string() : join(part.begin, u), " + c)");
    };
    const auto converted = [&](ElementType of) {
        return of == type ? std::string("part[e]") : from_float(type, to_float(of, "part[e]"));
    };
    s.line("#pragma unroll");
    s.line("    for (int k = 0; k < ", width, "; k += ", piece, ") {");
    s.line("      const ", index, " c = i % ", run, u, " * ", width, u, " + k;");
    const auto take = [&](ElementType of, const std::string& address, const std::string& condition = "") {
        s.line("        ", condition, "load<", piece, ">(", address, ", part);");
        s.line("#pragma unroll");
        s.line("        for (int e = 0; e < ", piece, "; ++e) x[u][k + e] = ", converted(of), ";");
    };
    if (alike) {
        s.line("      ", storage(first), " part[", piece, "] = {};");
        const std::string condition = rows.valid < rows.columns ? join("if (c < ", rows.valid, u, ") ") : std::string();
        take(first, choice(rows, 0, rows.parts.size(), u, from), condition);
    } else {
        for (std::size_t i = 0; i < rows.parts.size(); ++i) {
            const std::int64_t end = i + 1 < rows.parts.size() ? rows.parts[i + 1].begin : rows.valid;
            s.line(i == 0 ? "      if (c < " : "      else if (c < ", end, u, ") {");
            s.line("        ", storage(rows.parts[i].operand.type), " part[", piece, "];");
            take(rows.parts[i].operand.type, from(i));
            s.line("      }");
        }
        s.line("      else for (int e = 0; e < ", piece, "; ++e) x[u][k + e] = (", storage(type), ")0;");
    }
    s.line("    }");
}

/// Loads a vector in which parts take turns.
void write_turns(Source& s, const Rows& rows, std::int64_t width, std::int64_t piece, const std::string& u) {
    const std::int64_t run = rows.columns / width, each = width / rows.turns, own = rows.valid / rows.turns;
    for (std::size_t t = 0; t < rows.parts.size(); ++t) {
        s.line("#pragma unroll");
        s.line("    for (int k = 0; k < ", each, "; k += ", piece, ") {");
        s.line("      const u32 c = i % ", run, u, " * ", each, "u + k;");
        s.line("      ", storage(rows.joined), " part[", piece, "] = {};");
        // a part's padding is read with its last channels, and left out below
        s.line("      if (c < ", own, "u) load<", piece, ">(p", t, " + (row * ", rows.parts[t].stride, u,
               " + c), part);");
        s.line("#pragma unroll");
        s.line("      for (int e = 0; e < ", piece, "; ++e) x[u][(k + e) * ", rows.turns, " + ", t, "] = c + e < ", own,
               "u ? part[e] : (", storage(rows.joined), ")0;");
        s.line("    }");
    }
}

/// Puts the program's results in the place of the joined numbers, or into y where they are of another type.
Result<void> write_results(Source& s, const Rows& rows, const Pointwise& program, std::int64_t width,
                           const std::string& index, const std::string& u) {
    const ElementType type = rows.result.type;
    const bool apart = type != rows.joined;
    const std::int64_t run = rows.columns / width;
    s.line("    const ", index, " c = i % ", run, u, " * ", width, u, ";");
    std::vector<std::string> names{"a0"};
    for (std::size_t k = 0; k < rows.operands.size(); ++k) {
        const Operand& operand = rows.operands[k];
        const std::string from = join("p", rows.parts.size() + k), name = join("w", k);
        const bool one = operand.strides[0] == 0;
        s.line("    ", storage(operand.type), " ", name, "[", one ? 1 : width, "] = {};");
        const std::int64_t piece =
            common_power(std::min(width, 16 / static_cast<std::int64_t>(bytes_of(operand.type))), rows.valid);
        if (one) {
            s.line("    ", name, "[0] = ", from, "[0];");
        } else if (rows.valid % width == 0) {
            s.line("    if (c < ", rows.valid, u, ") load<", piece, ">(", from, " + c, ", name, ");");
        } else {
            s.line("#pragma unroll");
            s.line("    for (int e = 0; e < ", width, "; ++e) if (c + e < ", rows.valid, u, ") ", name, "[e] = ", from,
                   "[c + e];");
        }
        names.push_back(to_float(operand.type, name + (one ? "[0]" : "[e]")) + times(operand.scale));
    }
    if (apart) s.line("    ", storage(type), " y[", width, "];");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", width, "; ++e) {");
    s.line("      const float a0 = ", to_float(rows.joined, "x[u][e]"), ";");
    LATHE_TRY(const auto results, write_program(s, program, names, type == ElementType::f32));
    const std::string value = from_float(type, results[0] + times(1.0F / rows.result.scale));
    s.line("      ", apart ? "y[e]" : "x[u][e]", " = ",
           rows.valid < rows.columns ? join("c + e < ", rows.valid, u, " ? ", value, " : (", storage(type), ")0")
                                     : value,
           ";");
    s.line("    }");
    return {};
}

} // namespace

Family concat_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto rows = rows_of(op, plan);
    if (!rows) return refused(rows.error().message);
    Family family;
    for (const Vectors& each : vector_choices(width_of(*rows), rows->rows * rows->columns, target))
        family.variants.push_back(each.id());
    return family;
}

Result<GeneratedKernel> emit_concat(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Rows rows, rows_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    const auto& detail = std::get<Concat>(op.detail);
    if (rows.columns % vectors.width != 0) return no_variant(variant);
    const std::int64_t piece = piece_of(rows, vectors.width);
    if (rows.turns > 1 && vectors.width % rows.turns != 0) return no_variant(variant);
    bool narrow = rows.rows * rows.columns < (std::int64_t{1} << 30);
    for (const Part& part : rows.parts)
        narrow = narrow && rows.rows * part.stride < (std::int64_t{1} << 30);
    const std::string index = narrow ? "u32" : "i64", u = narrow ? "u" : "";
    const char* type = storage(rows.joined);

    GeneratedKernel kernel;
    kernel.entry = "lathe_concat";
    const std::int64_t total = rows.rows * rows.columns / vectors.width;
    kernel.threads = threads_for(total, vectors.count);
    const std::int64_t block = kernel.threads * vectors.count;
    kernel.grid[0] = static_cast<std::uint32_t>(divided_up(total, block));
    std::vector<Operand> inputs;
    for (const Part& part : rows.parts)
        inputs.push_back(part.operand);
    inputs.insert(inputs.end(), rows.operands.begin(), rows.operands.end());
    Source s;
    open_kernel(s, kernel, inputs, {rows.result});
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  const ", index, " first = (", index, ")block_x() * ", block, u, " + thread_index();");
    s.line("  ", type, " x[", vectors.count, "][", vectors.width, "];");
    const std::int64_t run = rows.columns / vectors.width;
    const auto open = [&] {
        s.line("#pragma unroll");
        s.line("  for (int u = 0; u < ", vectors.count, "; ++u) {");
        s.line("    const ", index, " i = first + u * ", kernel.threads, u, ";");
        if (total % block != 0) s.line("    if (i >= ", total, u, ") break;");
    };
    open();
    s.line("    const ", index, " row = i / ", run, u, ";");
    rows.turns > 1 ? write_turns(s, rows, vectors.width, piece, u)
                   : write_parts(s, rows, vectors.width, piece, index, u);
    s.line("  }");
    open();
    if (!detail.program.code.empty()) LATHE_CHECK(write_results(s, rows, detail.program, vectors.width, index, u));
    const bool apart = rows.joined != rows.result.type;
    s.line("    store<", vectors.width, ">(q0 + i * ", vectors.width, u, apart ? ", y);" : ", x[u]);");
    s.line("  }");
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

} // namespace lathe::cuda::generated
