// Reductions: along contiguous elements (threads share a row), or across rows (threads keep columns).
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

namespace lathe::cuda::generated {

namespace {

/// [outer][reduced][inner] to [outer][inner].
struct Reduction {
    ReduceKind kind = ReduceKind::sum;
    Operand x, y;
    std::int64_t outer = 1, reduced = 1, inner = 1;
    std::int64_t row = 1;        ///< elements from one reduced index to the next
    std::int64_t y_row = 1;      ///< elements from one outer index of the result to the next; zeros behind `inner`
    float before = 1, after = 1; ///< factors of each element and of the result
};

Result<Reduction> reduction_of(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    Reduction r;
    r.x = operand_of(plan, op.inputs[0]);
    r.y = operand_of(plan, op.outputs[0]);
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    if (const auto* reduce = std::get_if<Reduce>(&op.detail)) {
        if (x.layout != Layout::linear || y.layout != Layout::linear) return cannot("a reduction over an image");
        r.kind = reduce->kind;
        r.outer = reduce->outer;
        r.reduced = reduce->reduced;
        r.inner = r.row = r.y_row = reduce->inner;
        r.before = r.x.scale;
        r.after = 1.0F / r.y.scale;
    } else {
        const auto& pool = std::get<GlobalPool>(op.detail);
        const View from = view_of(x), to = view_of(y);
        if (from.dims.size() != 4) return cannot("a global pool of other than an image");
        r.kind = pool.average ? ReduceKind::mean : ReduceKind::max;
        r.reduced = from.dims[2] * from.dims[3];
        r.after = pool.rescale;
        if (!from.nhwc()) return cannot("a global pool of a linear image");
        r.outer = from.dims[0];
        r.inner = from.dims[1];
        r.row = from.pitch;
        r.y_row = to.nhwc() ? to.pitch : r.inner;
    }
    if (r.kind == ReduceKind::mean) r.after /= static_cast<float>(r.reduced);
    if (r.reduced < 1) return cannot("a reduction of nothing");
    if (r.outer * r.reduced * r.row >= std::int64_t{1} << 31) return cannot("over 2^31 elements");
    return r;
}

const char* start_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::max: return "bits_float(0xff800000u)";
        case ReduceKind::min: return "bits_float(0x7f800000u)";
        case ReduceKind::prod: return "1.0f";
        default: return "0.0f";
    }
}
std::string combined(ReduceKind kind, const std::string& a, const std::string& b) {
    switch (kind) {
        case ReduceKind::max: return join("larger(", a, ", ", b, ")");
        case ReduceKind::min: return join("smaller(", a, ", ", b, ")");
        case ReduceKind::prod: return join(a, " * ", b);
        default: return join(a, " + ", b);
    }
}
std::string element(const Reduction& r, const std::string& stored) {
    const std::string v = to_float(r.x.type, stored) + times(r.before);
    return r.kind == ReduceKind::l2 ? join("square(", v, ")") : v;
}
std::string finished(const Reduction& r, const std::string& value) {
    const std::string v = r.kind == ReduceKind::l2 ? join("root(", value, ")") : value;
    return from_float(r.y.type, v + times(r.after));
}

struct Work {
    char letter = 'r';
    std::int64_t count = 1;
};
Result<Work> shape_of(const std::string& variant) {
    Work shape;
    if (variant.size() < 2 || (variant[0] != 'r' && variant[0] != 'c')) return no_variant(variant);
    shape.letter = variant[0];
    const auto read = std::from_chars(variant.data() + 1, variant.data() + variant.size(), shape.count);
    if (read.ec != std::errc() || read.ptr != variant.data() + variant.size() || shape.count < 1 ||
        std::popcount(static_cast<std::uint64_t>(shape.count)) != 1)
        return no_variant(variant);
    return shape;
}

/// `threads` of a block for each row of contiguous elements.
GeneratedKernel along_rows(const Reduction& r, std::int64_t threads) {
    GeneratedKernel kernel;
    kernel.entry = "lathe_reduce";
    kernel.threads = static_cast<std::uint32_t>(std::max<std::int64_t>(threads, usual_threads));
    const std::int64_t rows = kernel.threads / threads, warps = threads / 32;
    kernel.grid[0] = static_cast<std::uint32_t>(divided_up(r.outer, rows));
    if (warps > 1) kernel.shared_bytes = kernel.threads / 32 * 4;
    const std::int64_t piece = common_power(16 / size_of(r.x.type), r.reduced);
    Source s;
    s.line("DEVICE float square(float v) { return v * v; }");
    open_kernel(s, kernel, {r.x}, {r.y});
    s.line("  const u32 lane = thread_index() % ", threads, "u, row = block_x() * ", rows, "u + thread_index() / ",
           threads, "u;");
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  float total = ", start_of(r.kind), ";");
    s.line("  if (row < ", r.outer, "u) {");
    s.line("    const ", storage(r.x.type), "* from = p0 + row * ", r.reduced, "u;");
    s.line("#pragma unroll 4");
    s.line("    for (u32 i = lane * ", piece, "u; i < ", r.reduced, "u; i += ", threads * piece, "u) {");
    s.line("      ", storage(r.x.type), " x[", piece, "];");
    s.line("      load<", piece, ">(from + i, x);");
    s.line("#pragma unroll");
    s.line("      for (int e = 0; e < ", piece, "; ++e) total = ", combined(r.kind, "total", element(r, "x[e]")), ";");
    s.line("    }");
    s.line("  }");
    for (std::int64_t step = std::min<std::int64_t>(threads, 32) / 2; step > 0; step /= 2)
        s.line("  total = ", combined(r.kind, "total", join("shuffle_xor(total, ", step, ")")), ";");
    if (warps > 1) {
        s.line("  float* parts = reinterpret_cast<float*>(shared_memory);");
        s.line("  if (thread_index() % 32u == 0) parts[thread_index() / 32u] = total;");
        s.line("  block_barrier();");
        s.line("  if (lane != 0) return;");
        s.line("  for (u32 i = 1; i < ", warps,
               "u; ++i) total = ", combined(r.kind, "total", "parts[thread_index() / 32u + i]"), ";");
    }
    s.line("  if (lane == 0 && row < ", r.outer, "u) q0[row] = ", finished(r, "total"), ";");
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

/// Threads keep columns and add up rows; `parts` blocks of a cluster share the rows.
GeneratedKernel across_rows(const Reduction& r, std::int64_t parts) {
    GeneratedKernel kernel;
    kernel.entry = "lathe_reduce";
    kernel.threads = usual_threads;
    kernel.cluster = static_cast<std::uint32_t>(parts);
    const bool padding_too = r.row > r.inner; // the input's padding is read beside its columns
    std::int64_t piece = common_power(16 / size_of(r.x.type), r.row);
    if (!padding_too) piece = common_power(piece, r.inner);
    const std::int64_t vectors = divided_up(std::max(r.inner, r.y_row), piece);
    const std::int64_t across = std::min<std::int64_t>(up_to_power(vectors), 32), down = usual_threads / across;
    const std::int64_t columns = across * piece, chunks = divided_up(vectors, across);
    kernel.shared_bytes = static_cast<std::uint32_t>((down + 1) * columns * 4);
    kernel.grid[0] = static_cast<std::uint32_t>(r.outer * chunks * parts);
    Source s;
    s.line("DEVICE float square(float v) { return v * v; }");
    open_kernel(s, kernel, {r.x}, {r.y});
    s.line("  float* sums = reinterpret_cast<float*>(shared_memory);");
    s.line("  float* mine = sums + ", down * columns, ";");
    s.line("  const u32 part = block_x() % ", parts, "u, chunk = block_x() / ", parts, "u % ", chunks,
           "u, outer = block_x() / ", parts * chunks, "u;");
    s.line("  const u32 across = thread_index() % ", across, "u, down = thread_index() / ", across, "u;");
    s.line("  const u32 column = chunk * ", columns, "u + across * ", piece, "u;");
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  float total[", piece, "];");
    s.line("#pragma unroll");
    s.line("  for (int e = 0; e < ", piece, "; ++e) total[e] = ", start_of(r.kind), ";");
    s.line("  if (column < ", r.inner, "u) {");
    s.line("    const ", storage(r.x.type), "* from = p0 + (outer * ", r.reduced * r.row, "u + column);");
    s.line("#pragma unroll 4");
    s.line("    for (u32 i = part * ", down, "u + down; i < ", r.reduced, "u; i += ", down * parts, "u) {");
    s.line("      ", storage(r.x.type), " x[", piece, "];");
    s.line("      load<", piece, ">(from + i * ", r.row, "u, x);");
    s.line("#pragma unroll");
    s.line("      for (int e = 0; e < ", piece, "; ++e) total[e] = ", combined(r.kind, "total[e]", element(r, "x[e]")),
           ";");
    s.line("    }");
    s.line("  }");
    s.line("#pragma unroll");
    s.line("  for (int e = 0; e < ", piece, "; ++e) sums[down * ", columns, "u + across * ", piece,
           "u + e] = total[e];");
    s.line("  block_barrier();");
    s.line("  for (u32 c = thread_index(); c < ", columns, "u; c += ", usual_threads, "u) {");
    s.line("    float v = sums[c];");
    s.line("    for (u32 i = 1; i < ", down,
           "u; ++i) v = ", combined(r.kind, "v", join("sums[i * ", columns, "u + c]")), ";");
    if (parts > 1) {
        s.line("    mine[c] = v;");
        s.line("  }");
        s.line("  cluster_barrier();");
        s.line("  if (part == 0) for (u32 c = thread_index(); c < ", columns, "u; c += ", usual_threads, "u) {");
        s.line("    float v = mine[c];");
        s.line("#pragma unroll");
        s.line("    for (u32 i = 1; i < ", parts, "u; ++i) v = ", combined(r.kind, "v", "cluster_float(mine + c, i)"),
               ";");
    }
    s.line("    const u32 to = chunk * ", columns, "u + c;");
    const std::string value = finished(r, "v");
    const std::string zero = join("(", storage(r.y.type), ")0");
    s.line("    if (to < ", r.y_row, "u) q0[outer * ", r.y_row,
           "u + to] = ", r.y_row > r.inner ? join("to < ", r.inner, "u ? ", value, " : ", zero) : value, ";");
    s.line("  }");
    if (parts > 1) s.line("  cluster_barrier();"); // nobody leaves while its memory is read
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

bool rows_fit(const Reduction& r, std::int64_t threads) {
    const std::int64_t piece = common_power(16 / size_of(r.x.type), r.reduced);
    return threads == 1 || threads * piece < 2 * r.reduced;
}

} // namespace

Family reduce_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto made = reduction_of(op, plan);
    if (!made) return refused(made.error().message);
    const Reduction& r = *made;
    Family family;
    std::vector<std::pair<double, std::string>> found;
    const double processors = std::max(1, target.multiprocessors);
    if (r.inner == 1 && r.row == 1) {
        for (const std::int64_t threads : {1, 8, 32, 128, 512, 1024}) {
            if (!rows_fit(r, threads)) continue;
            const double piece = static_cast<double>(common_power(16 / size_of(r.x.type), r.reduced));
            const double rounds = std::max(1.0, static_cast<double>(r.outer * threads) / (processors * 2048));
            const double steps = static_cast<double>(r.reduced) / (static_cast<double>(threads) * piece);
            found.emplace_back(rounds * (steps + (threads > 32 ? 6 : 2)), join("r", threads));
        }
    } else {
        for (const std::int64_t parts : {1, 2, 4, 8}) {
            if (parts > 1 && (target.sm < 90 || r.reduced < 64 * parts)) continue;
            const GeneratedKernel kernel = across_rows(r, parts);
            const double blocks = static_cast<double>(kernel.grid[0]);
            const double work = static_cast<double>(r.outer * r.reduced) / blocks;
            found.emplace_back(std::max(1.0, blocks / (processors * 6)) * (work + 20) + (parts > 1 ? 40 : 0),
                               join("c", parts));
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [cost, id] : found)
        family.variants.push_back(std::move(id));
    return family;
}

Result<GeneratedKernel> emit_reduce(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Reduction r, reduction_of(op, plan));
    LATHE_TRY(const Work shape, shape_of(variant));
    const bool rows = r.inner == 1 && r.row == 1;
    if (rows != (shape.letter == 'r') || shape.count > (rows ? 1024 : 8)) return no_variant(variant);
    return rows ? along_rows(r, shape.count) : across_rows(r, shape.count);
}

} // namespace lathe::cuda::generated
