// Rows of tables by index: embeddings (sums over several tables) and gathers along any axis.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>

namespace lathe::cuda::generated {

namespace {

struct Table {
    Operand rows, indices;
    std::int64_t size = 0, count = 1; ///< rows; indices, which repeat
};
struct Gathering {
    std::vector<Table> tables;
    Operand y;
    std::int64_t outer = 1, count = 1, inner = 1, piece = 1;
    bool raw = false; ///< stored numbers are moved
};

std::int64_t product(const Shape& dims, std::size_t from, std::size_t to) {
    std::int64_t count = 1;
    for (std::size_t i = from; i < to && i < dims.size(); ++i)
        count *= dims[i];
    return count;
}

Result<Gathering> gathering_of(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const auto& detail = std::get<Gather>(op.detail);
    Gathering g;
    g.y = operand_of(plan, op.outputs[0]);
    const Value& y = plan.values[op.outputs[0]];
    if (y.layout != Layout::linear) return cannot("a gather to an image");
    const auto indices = [&](Table& table, ValueId id) {
        table.indices = operand_of(plan, id);
        table.count = std::max<std::int64_t>(1, element_count(plan.values[id].dims));
        return table.indices.type == ElementType::s32 || table.indices.type == ElementType::s64;
    };
    if (!detail.tables.empty()) {
        if (op.inputs.size() != detail.tables.size()) return cannot("tables of other than one index each");
        for (std::size_t t = 0; t < detail.tables.size(); ++t) {
            const Weight& weight = plan.weights->weights[detail.tables[t]];
            Table table;
            table.rows.argument.weight = detail.tables[t];
            table.rows.type = weight.type;
            table.size = weight.dims[0];
            g.inner = product(weight.dims, 1, weight.dims.size());
            if (!indices(table, op.inputs[t])) return cannot("indices that are not integers");
            g.tables.push_back(std::move(table));
        }
        g.count = element_count(y.dims) / std::max<std::int64_t>(1, g.inner);
    } else {
        const Value& rows = plan.values[op.inputs[0]];
        if (rows.layout != Layout::linear) return cannot("a gather from an image");
        const auto axis = static_cast<std::size_t>(
            detail.axis < 0 ? detail.axis + static_cast<std::int64_t>(rows.dims.size()) : detail.axis);
        Table table;
        table.rows = operand_of(plan, op.inputs[0]);
        table.size = rows.dims[axis];
        g.outer = product(rows.dims, 0, axis);
        g.inner = product(rows.dims, axis + 1, rows.dims.size());
        if (!indices(table, op.inputs[1])) return cannot("indices that are not integers");
        g.count = table.count;
        g.tables.push_back(std::move(table));
    }
    const Operand& first = g.tables.front().rows;
    g.raw = g.tables.size() == 1 && first.type == g.y.type && first.scale == g.y.scale;
    std::size_t widest = bytes_of(g.y.type);
    for (const Table& table : g.tables)
        widest = std::max(widest, bytes_of(table.rows.type));
    g.piece = common_power(16 / static_cast<std::int64_t>(widest), g.inner);
    if (g.outer * g.count * g.inner >= std::int64_t{1} << 31) return cannot("over 2^31 elements");
    return g;
}

} // namespace

Family gather_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto g = gathering_of(op, plan);
    if (!g) return refused(g.error().message);
    Family family;
    for (const Vectors& each : vector_choices(g->piece, g->outer * g->count * g->inner, target))
        if (each.count <= 2) family.variants.push_back(each.id());
    return family;
}

Result<GeneratedKernel> emit_gather(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Gathering g, gathering_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    if (vectors.width != g.piece) return no_variant(variant);
    GeneratedKernel kernel;
    kernel.entry = "lathe_gather";
    const std::int64_t total = g.outer * g.count * g.inner / g.piece;
    std::vector<Operand> inputs;
    for (const Table& table : g.tables) {
        inputs.push_back(table.rows);
        inputs.push_back(table.indices);
    }
    Source s;
    open_pieces(s, kernel, inputs, {g.y}, vectors, total);
    const std::int64_t run = g.inner / g.piece;
    s.line("    const u32 column = i % ", run, "u * ", g.piece, "u, which = i / ", run, "u % ", g.count,
           "u, outer = i / ", run * g.count, "u;");
    for (std::size_t t = 0; t < g.tables.size(); ++t) {
        const Table& table = g.tables[t];
        s.line("    i64 row", t, " = p", 2 * t + 1, "[which % ", table.count, "u];");
        s.line("    if (row", t, " < 0) row", t, " += ", table.size, ";");
        // never outside the table
        s.line("    row", t, " = row", t, " < 0 ? 0 : row", t, " >= ", table.size, " ? ", table.size - 1, " : row", t,
               ";");
        s.line("    ", storage(table.rows.type), " x", t, "[", g.piece, "];");
        s.line("    load<", g.piece, ">(p", 2 * t, " + (((i64)outer * ", table.size, " + row", t, ") * ", g.inner,
               " + column), x", t, ");");
    }
    if (g.raw) {
        s.line("    store<", g.piece, ">(q0 + i * ", g.piece, "u, x0);");
    } else {
        std::string sum;
        for (std::size_t t = 0; t < g.tables.size(); ++t)
            sum += join(t == 0 ? "" : " + ", to_float(g.tables[t].rows.type, join("x", t, "[e]")),
                        times(g.tables[t].rows.scale));
        if (g.y.scale != 1) sum = join("(", sum, ")", times(1.0F / g.y.scale));
        s.line("    ", storage(g.y.type), " y[", g.piece, "];");
        s.line("#pragma unroll");
        s.line("    for (int e = 0; e < ", g.piece, "; ++e) y[e] = ", from_float(g.y.type, sum), ";");
        s.line("    store<", g.piece, ">(q0 + i * ", g.piece, "u, y);");
    }
    close_pieces(s, kernel);
    return kernel;
}

} // namespace lathe::cuda::generated
