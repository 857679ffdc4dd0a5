// Softmax and layer normalisation: a row lies in the registers of a warp or a block, read once and written once. One
// that is too long for that is read anew in each of three passes (from L2, as a rule).
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <charconv>

namespace lathe::cuda::generated {

namespace {

/// What a thread may keep of a row.
constexpr std::int64_t most_elements = 64;
/// The variant for rows that do not fit a block's registers.
constexpr std::int64_t longest_block = 1024;
constexpr const char* long_rows = "long";

struct RowsOp {
    std::int64_t rows = 0, columns = 0;
    std::vector<Operand> inputs, outputs;
    std::int64_t piece = 1;
};

Result<RowsOp> rows_op(const FusedOp& op, const Plan& plan) {
    RowsOp made;
    if (const auto* softmax = std::get_if<Softmax>(&op.detail)) {
        made.rows = softmax->rows;
        made.columns = softmax->columns;
    } else {
        const auto& norm = std::get<LayerNorm>(op.detail);
        made.rows = norm.rows;
        made.columns = norm.columns;
    }
    std::int64_t widest = 1;
    const auto add = [&](std::vector<Operand>& list, const std::vector<ValueId>& ids) {
        for (const ValueId id : ids) {
            list.push_back(operand_of(plan, id));
            widest = std::max(widest, size_of(list.back().type));
        }
    };
    add(made.inputs, op.inputs);
    add(made.outputs, op.outputs);
    if (made.rows * made.columns >= std::int64_t{1} << 31)
        return Error{ErrorCode::unsupported, "over 2^31 elements", op.name, ""};
    if (widest > 4) return Error{ErrorCode::unsupported, "rows of 64-bit numbers", op.name, ""};
    made.piece = common_power(16 / widest, made.columns);
    return made;
}

std::int64_t vectors_a_thread(const RowsOp& op, std::int64_t threads) {
    return divided_up(op.columns, threads * op.piece);
}
bool fits(const RowsOp& op, std::int64_t threads) {
    if (vectors_a_thread(op, threads) * op.piece > most_elements) return false;
    return threads == 8 || threads * op.piece < 2 * op.columns;
}

class RowsKernel {
public:
    RowsKernel(const RowsOp& op, std::int64_t threads)
        : op_(op), threads_(threads), count_(vectors_a_thread(op, threads)), held_(fits(op, threads)) {}

    Result<GeneratedKernel> emit(const FusedOp& op) {
        kernel_.threads = static_cast<std::uint32_t>(std::max<std::int64_t>(threads_, usual_threads));
        rows_ = kernel_.threads / threads_;
        kernel_.grid[0] = static_cast<std::uint32_t>(divided_up(op_.rows, rows_));
        if (const auto* softmax = std::get_if<Softmax>(&op.detail)) {
            kernel_.entry = "lathe_softmax";
            softmax_rows(*softmax);
        } else {
            kernel_.entry = "lathe_layer_norm";
            norm_rows(std::get<LayerNorm>(op.detail));
        }
        s_.line("}");
        kernel_.source = s_.take();
        kernel_.shared_bytes = threads_ > 32 ? slots_ * kernel_.threads / 32 * 4 : 0;
        return std::move(kernel_);
    }

private:
    void open(const std::vector<Operand>& inputs) {
        open_kernel(s_, kernel_, inputs, op_.outputs);
        s_.line("  const u32 lane = thread_index() % ", threads_, "u, row = block_x() * ", rows_,
                "u + thread_index() / ", threads_, "u;");
        s_.line("  const bool inside = row < ", op_.rows, "u;");
        s_.line("  wait_for_previous();");
        s_.line("  let_next_start();");
        s_.line("  float v[", held_ ? count_ : 1, "][", op_.piece, "];");
    }
    template <class Body>
    void each_vector(bool inside, Body body) {
        s_.line("#pragma unroll", held_ ? "" : " 4");
        s_.line("  for (int u = 0; u < ", count_, "; ++u) {");
        s_.line("    const int at = ", held_ ? "u" : "0", ";");
        s_.line("    const u32 column = (u * ", threads_, "u + lane) * ", op_.piece, "u;");
        const bool full = op_.columns % (threads_ * op_.piece) == 0;
        if (inside)
            s_.line("    if (", full ? "inside" : join("inside && column < ", op_.columns, "u"), ") {");
        else
            s_.line("    {");
        body();
        s_.line("    }");
        s_.line("  }");
    }
    template <class... Pieces>
    void each_element(const Pieces&... pieces) {
        s_.line("#pragma unroll");
        s_.line("      for (int e = 0; e < ", op_.piece, "; ++e) ", pieces...);
    }
    std::string at() const { return join("row * ", op_.columns, "u + column"); }
    void load_input(std::size_t k) {
        s_.line("      ", storage(op_.inputs[k].type), " x", k, "[", op_.piece, "];");
        s_.line("      load<", op_.piece, ">(p", k, " + (", at(), "), x", k, ");");
    }
    void store_output(std::size_t o, const std::string& value) {
        const Operand& y = op_.outputs[o];
        s_.line("      ", storage(y.type), " y", o, "[", op_.piece, "];");
        each_element("y", o, "[e] = ", from_float(y.type, value + times(1.0F / y.scale)), ";");
        s_.line("      store<", op_.piece, ">(q", o, " + (", at(), "), y", o, ");");
    }
    /// `name` of each thread becomes the row's.
    void reduce(const std::string& name, bool largest) {
        const auto both = [&](const std::string& other) {
            return largest ? join("larger(", name, ", ", other, ")") : join(name, " + ", other);
        };
        for (std::int64_t step = std::min<std::int64_t>(threads_, 32) / 2; step > 0; step /= 2)
            s_.line("  ", name, " = ", both(join("shuffle_xor(", name, ", ", step, ")")), ";");
        if (threads_ <= 32) return;
        const std::int64_t warps = kernel_.threads / 32, of_row = threads_ / 32;
        s_.line("  {");
        s_.line("    float* parts = reinterpret_cast<float*>(shared_memory) + ", slots_ * warps, ";");
        s_.line("    if (thread_index() % 32u == 0) parts[thread_index() / 32u] = ", name, ";");
        s_.line("    block_barrier();");
        s_.line("    const u32 first = thread_index() / ", threads_, "u * ", of_row, "u;");
        s_.line("    ", name, " = parts[first];");
        s_.line("#pragma unroll");
        s_.line("    for (u32 i = 1; i < ", of_row, "u; ++i) ", name, " = ", both("parts[first + i]"), ";");
        s_.line("  }");
        ++slots_;
    }

    /// A pass over the row's numbers: read them where registers do not hold them.
    template <class Read, class Body>
    void pass(Read read, Body body) {
        each_vector(!held_, [&] {
            if (!held_) read();
            body();
        });
    }
    /// The same for what may touch memory.
    template <class Read, class Body>
    void pass_inside(Read read, Body body) {
        each_vector(true, [&] {
            if (!held_) read();
            body();
        });
    }

    void softmax_rows(const Softmax& detail) {
        open(op_.inputs);
        const bool exact = op_.outputs[0].type == ElementType::f32;
        const std::string lowest = "bits_float(0xff800000u)";
        const auto read = [&] {
            load_input(0);
            each_element("v[at][e] = ", to_float(op_.inputs[0].type, "x0[e]"), times(op_.inputs[0].scale), ";");
        };
        if (held_) {
            each_vector(false, [&] { each_element("v[at][e] = ", lowest, ";"); });
            each_vector(true, read);
        }
        s_.line("  float most = ", lowest, ";");
        pass(read, [&] { each_element("most = larger(most, v[at][e]);"); });
        reduce("most", true);
        s_.line("  float total = 0.0f;");
        const std::string exponential = exact ? "expf" : "quick_exp";
        const auto weigh = [&] {
            each_element("{ v[at][e] ", detail.log ? "-= most" : join("= ", exponential, "(v[at][e] - most)"), "; }");
        };
        pass(read, [&] {
            weigh();
            each_element("total += ", detail.log ? join(exponential, "(v[at][e])") : "v[at][e]", ";");
        });
        reduce("total", false);
        s_.line("  const float last = ", detail.log ? "logf(total)" : "1.0f / total", ";");
        pass_inside(read, [&] {
            if (!held_) weigh();
            store_output(0, detail.log ? "(v[at][e] - last)" : "v[at][e] * last");
        });
    }

    void norm_rows(const LayerNorm& detail) {
        std::vector<Operand> inputs = op_.inputs;
        std::size_t gamma = 0, beta = 0;
        for (const auto& [weight, index] : {std::pair{detail.gamma, &gamma}, std::pair{detail.beta, &beta}}) {
            if (weight == none) continue;
            *index = inputs.size();
            Operand operand;
            operand.argument.weight = weight;
            inputs.push_back(operand);
        }
        open(inputs);
        const auto read = [&] {
            for (std::size_t k = 0; k < op_.inputs.size(); ++k)
                load_input(k);
            std::string value = to_float(op_.inputs[0].type, "x0[e]") + times(op_.inputs[0].scale);
            if (detail.residual) value += " + " + to_float(op_.inputs[1].type, "x1[e]") + times(op_.inputs[1].scale);
            each_element("v[at][e] = ", value, ";");
        };
        const auto store_sum = [&] {
            if (detail.sum_output) store_output(1 + (detail.quantized_output ? 1 : 0), "v[at][e]");
        };
        s_.line("  float mean = 0.0f, squares = 0.0f;");
        if (held_) {
            each_vector(false, [&] { each_element("v[at][e] = 0.0f;"); });
            each_vector(true, [&] {
                read();
                store_sum();
            });
        }
        if (detail.centred) {
            pass(read, [&] { each_element("mean += v[at][e];"); });
            reduce("mean", false);
            s_.line("  mean *= ", 1.0F / static_cast<float>(op_.columns), ";");
        }
        pass_inside(read, [&] { each_element("squares += (v[at][e] - mean) * (v[at][e] - mean);"); });
        reduce("squares", false);
        s_.line("  const float factor = inverse_root(squares * ", 1.0F / static_cast<float>(op_.columns), " + ",
                detail.epsilon, ");");
        pass_inside(read, [&] {
            // Only now: the sum may lie where an input did.
            if (!held_) store_sum();
            const std::int64_t four = std::min<std::int64_t>(op_.piece, 4);
            std::string value = "(v[at][e] - mean) * factor";
            for (const std::size_t k : {gamma, beta}) {
                if (k == 0) continue;
                s_.line("      float w", k, "[", op_.piece, "];");
                s_.line("      load<", four, ">(p", k, " + column, w", k, ");");
            }
            if (gamma != 0) value += join(" * w", gamma, "[e]");
            if (beta != 0) value = join("(", value, " + w", beta, "[e])");
            each_element("v[at][e] = ", value, ";");
            store_output(0, "v[at][e]");
            if (detail.quantized_output) store_output(1, "v[at][e]");
        });
    }

    const RowsOp& op_;
    std::int64_t threads_, count_, rows_ = 1;
    bool held_; ///< a row in registers
    std::uint32_t slots_ = 0;
    GeneratedKernel kernel_;
    Source s_;
};

} // namespace

Family rows_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto made = rows_op(op, plan);
    if (!made) return refused(made.error().message);
    std::vector<std::pair<double, std::string>> found;
    for (const std::int64_t threads : {8, 32, 64, 128, 256, 512, 1024}) {
        if (!fits(*made, threads)) continue;
        const double rounds =
            std::max(1.0, static_cast<double>(made->rows * threads) / (std::max(1, target.multiprocessors) * 1536.0));
        const auto steps = static_cast<double>(vectors_a_thread(*made, threads));
        found.emplace_back(rounds * (steps + (threads > 32 ? 5 : 2)), join("r", threads));
    }
    if (found.empty()) return Family{{long_rows}, {}};
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Family family;
    for (auto& [cost, id] : found)
        family.variants.push_back(std::move(id));
    return family;
}

Result<GeneratedKernel> emit_rows(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const RowsOp made, rows_op(op, plan));
    for (const std::int64_t threads : {8, 32, 64, 128, 256, 512, 1024})
        if (variant == join("r", threads) && fits(made, threads)) return RowsKernel(made, threads).emit(op);
    if (variant == long_rows) return RowsKernel(made, longest_block).emit(op);
    return no_variant(variant);
}

} // namespace lathe::cuda::generated
