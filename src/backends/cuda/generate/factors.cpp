// Group normalisation's statistics: threads keep channels and walk over pixels, blocks of a cluster share the pixels.
//
// Sums are of differences to the first pixel, so that a large mean takes nothing from the variance. From the channels'
// means and variances those of a group follow (Chan, Golub, LeVeque, Updating formulae, 1979).
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>

namespace lathe::cuda::generated {

namespace {

constexpr std::int64_t most_shared = 48 << 10;

struct Groups {
    Operand x, factor, shift;
    std::int64_t samples = 1, channels = 1, pixels = 1, row = 1, result_row = 1;
    std::int64_t each = 1;  ///< channels of a group
    std::int64_t slice = 1; ///< channels of a block: whole groups, whole vectors
    std::int64_t piece = 1, across = 1, down = 1;
    float epsilon = 0;
    std::int64_t shared() const { return 2 * down * slice * 4; }
    std::int64_t threads() const { return (across * down + 31) / 32 * 32; }
    std::int64_t slices() const { return channels / slice; }
};

/// `narrow`: as few channels a block as groups and vectors allow, where images are large and blocks few; neighbouring
/// blocks then read halves of the same sectors.
Result<Groups> groups_of(const FusedOp& op, const Plan& plan, bool narrow) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const auto& detail = std::get<GroupFactors>(op.detail);
    const Value& x = plan.values[op.inputs[0]];
    if (x.part) return cannot("a part of an image");
    Groups g;
    g.x = operand_of(plan, op.inputs[0]);
    g.factor = operand_of(plan, op.outputs[0]);
    g.shift = operand_of(plan, op.outputs[1]);
    g.samples = x.dims[0];
    g.channels = x.dims[1];
    g.pixels = x.dims[2] * x.dims[3];
    g.row = x.channel_stride;
    g.result_row = plan.values[op.outputs[0]].channel_stride;
    g.each = g.channels / detail.groups;
    g.epsilon = detail.epsilon;
    if (g.samples * g.pixels * g.row >= std::int64_t{1} << 31) return cannot("over 2^31 elements");
    const auto size = static_cast<std::int64_t>(bytes_of(x.type));
    if (size > 4) return cannot("images of 64-bit numbers");
    g.piece = common_power(common_power(16 / size, g.row), g.channels);
    g.slice = std::lcm(g.each, g.piece);
    // Whole sectors of memory, where there are blocks enough.
    while (!narrow && g.slice * size < 64 && g.channels % (2 * g.slice) == 0)
        g.slice *= 2;
    g.across = g.slice / g.piece;
    g.down = std::max<std::int64_t>(1, usual_threads / g.across);
    if (g.threads() > 1024 || g.shared() > most_shared) return cannot("groups of too many channels");
    return g;
}

/// Factor and shift of each group of a block from its channels' means at `sums` and variances at `sums + variances`: as
/// many lanes a group as it has channels, at most a warp.
void emit_groups(Source& s, const Groups& g, std::int64_t threads, std::int64_t variances) {
    const auto lanes =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(g.each, 32))));
    const std::int64_t groups = g.slice / g.each, side_by_side = threads / lanes;
    const std::string channels =
        join("for (u32 i = thread_index() % ", lanes, "u; there && i < ", g.each, "u; i += ", lanes, "u)");
    const auto over_lanes = [&](const char* sum) {
        for (std::int64_t step = lanes / 2; step > 0; step /= 2)
            s.line("      ", sum, " += shuffle_xor(", sum, ", ", step, ");");
    };
    s.line("    for (u32 first = 0; first < ", groups, "u; first += ", side_by_side, "u) {");
    s.line("      const u32 group = first + thread_index() / ", lanes, "u, at = group * ", g.each, "u;");
    s.line("      const bool there = group < ", groups, "u;");
    s.line("      float mean = 0.0f, variance = 0.0f;");
    s.line("      ", channels, " mean += sums[at + i];");
    over_lanes("mean");
    s.line("      mean *= ", 1.0F / static_cast<float>(g.each), ";");
    s.line("      ", channels, " {");
    s.line("        const float d = sums[at + i] - mean;");
    s.line("        variance += sums[", variances, "u + at + i] + d * d;");
    s.line("      }");
    over_lanes("variance");
    s.line("      const float factor = inverse_root(variance * ", 1.0F / static_cast<float>(g.each), " + ", g.epsilon,
           ");");
    s.line("      const u32 to = sample * ", g.result_row, "u + slice * ", g.slice, "u + at;");
    s.line("      ", channels, " {");
    s.line("        q0[to + i] = factor;");
    s.line("        q1[to + i] = -mean * factor;");
    s.line("      }");
    s.line("    }");
}

} // namespace

Family factors_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto wide = groups_of(op, plan, false), narrow = groups_of(op, plan, true);
    if (!wide && !narrow) return refused(narrow.error().message);
    std::vector<std::pair<double, std::string>> found;
    for (const auto* g : {&wide, &narrow}) {
        if (!*g || (g == &narrow && wide && (*g)->slice == wide->slice)) continue;
        for (const std::int64_t parts : {1, 2, 4, 8}) {
            if (parts > 1 && (target.sm < 90 || (*g)->pixels < 8 * parts)) continue;
            const double blocks = static_cast<double>((*g)->samples * (*g)->slices() * parts);
            const double work = static_cast<double>((*g)->pixels) / static_cast<double>(parts * (*g)->down);
            const double cost = std::max(1.0, blocks / (std::max(1, target.multiprocessors) * 6.0)) * (work + 20);
            found.emplace_back(cost + (parts > 1 ? 20 : 0), join(g == &wide ? "c" : "n", parts));
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Family family;
    for (auto& [cost, id] : found)
        family.variants.push_back(std::move(id));
    return family;
}

Result<GeneratedKernel> emit_factors(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Groups g, groups_of(op, plan, variant.starts_with("n")));
    std::int64_t parts = 0;
    const auto read = std::from_chars(variant.data() + 1, variant.data() + variant.size(), parts);
    if (variant.size() != 2 || (variant[0] != 'c' && variant[0] != 'n') || read.ec != std::errc() ||
        (parts != 1 && parts != 2 && parts != 4 && parts != 8))
        return no_variant(variant);
    GeneratedKernel kernel;
    kernel.entry = "lathe_group_factors";
    kernel.threads = static_cast<std::uint32_t>(g.threads());
    kernel.cluster = static_cast<std::uint32_t>(parts);
    kernel.shared_bytes = static_cast<std::uint32_t>(g.shared());
    kernel.grid[0] = static_cast<std::uint32_t>(g.samples * g.slices() * parts);
    const std::int64_t busy = g.across * g.down, all = g.down * g.slice;
    const std::string value = to_float(g.x.type, "x[e]") + times(g.x.scale);
    Source s;
    open_kernel(s, kernel, {g.x}, {g.factor, g.shift});
    s.line("  float* sums = reinterpret_cast<float*>(shared_memory);"); // [2][down][slice]
    s.line("  const u32 part = block_x() % ", parts, "u, slice = block_x() / ", parts, "u % ", g.slices(),
           "u, sample = block_x() / ", parts * g.slices(), "u;");
    s.line("  const u32 across = thread_index() % ", g.across, "u, down = thread_index() / ", g.across, "u;");
    s.line("  const ", storage(g.x.type), "* from = p0 + (sample * ", g.pixels * g.row, "u + slice * ", g.slice, "u);");
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  if (thread_index() < ", busy, "u) {");
    s.line("    float first[", g.piece, "], sum[", g.piece, "], squares[", g.piece, "];");
    s.line("    ", storage(g.x.type), " x[", g.piece, "];");
    s.line("    load<", g.piece, ">(from + across * ", g.piece, "u, x);");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", g.piece, "; ++e) { first[e] = ", value, "; sum[e] = squares[e] = 0.0f; }");
    s.line("#pragma unroll 4");
    s.line("    for (u32 i = part * ", g.down, "u + down; i < ", g.pixels, "u; i += ", g.down * parts, "u) {");
    s.line("      load<", g.piece, ">(from + (i * ", g.row, "u + across * ", g.piece, "u), x);");
    s.line("#pragma unroll");
    s.line("      for (int e = 0; e < ", g.piece, "; ++e) {");
    s.line("        const float d = ", value, " - first[e];");
    s.line("        sum[e] += d;");
    s.line("        squares[e] += d * d;");
    s.line("      }");
    s.line("    }");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", g.piece, "; ++e) {");
    s.line("      const u32 at = down * ", g.slice, "u + across * ", g.piece, "u + e;");
    s.line("      sums[at] = sum[e];");
    s.line("      sums[", all, "u + at] = squares[e];");
    s.line("    }");
    s.line("  }");
    s.line("  block_barrier();");
    // Sums over `down`, four rows to one in each step, so that narrow slices of many rows keep all threads busy.
    std::int64_t rows = g.down, left = 1;
    while (left * 4 < rows)
        left *= 4;
    for (; rows > 1; rows = left, left = std::max<std::int64_t>(1, left / 4)) {
        s.line("  for (u32 i = thread_index(); i < ", left * g.slice, "u; i += ", kernel.threads, "u) {");
        s.line("#pragma unroll");
        s.line("    for (u32 k = i + ", left * g.slice, "u; k < ", rows * g.slice, "u; k += ", left * g.slice, "u) {");
        s.line("      sums[i] += sums[k];");
        s.line("      sums[", all, "u + i] += sums[", all, "u + k];");
        s.line("    }");
        s.line("  }");
        s.line("  block_barrier();");
    }
    if (parts > 1) s.line("  cluster_barrier();");
    s.line("  if (part == 0) {");
    // Of each channel its mean and variance, where the sums were.
    s.line("    for (u32 c = thread_index(); c < ", g.slice, "u; c += ", kernel.threads, "u) {");
    s.line("      float sum = sums[c], squares = sums[", all, "u + c];");
    if (parts > 1) {
        s.line("#pragma unroll");
        s.line("      for (u32 i = 1; i < ", parts, "u; ++i) {");
        s.line("        sum += cluster_float(sums + c, i);");
        s.line("        squares += cluster_float(sums + ", all, "u + c, i);");
        s.line("      }");
    }
    const float one = 1.0F / static_cast<float>(g.pixels);
    s.line("      const float mean = sum * ", one, ";");
    s.line("      sums[c] = ", to_float(g.x.type, "from[c]"), times(g.x.scale), " + mean;");
    s.line("      sums[", all, "u + c] = larger(squares * ", one, " - mean * mean, 0.0f);");
    s.line("    }");
    s.line("    block_barrier();");
    emit_groups(s, g, kernel.threads, all);
    if (g.result_row > g.channels) {
        s.line("    if (slice == ", g.slices() - 1, "u && thread_index() < ", g.result_row - g.channels, "u) {");
        s.line("      const u32 to = sample * ", g.result_row, "u + ", g.channels, "u + thread_index();");
        s.line("      q0[to] = 0.0f;");
        s.line("      q1[to] = 0.0f;");
        s.line("    }");
    }
    s.line("  }");
    if (parts > 1) s.line("  cluster_barrier();"); // nobody leaves while its memory is read
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

} // namespace lathe::cuda::generated
