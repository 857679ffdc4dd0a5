// Provider "cublaslt": gemm, 1x1 convolutions and batched gemm. An id is "FORM/" and the algorithm's 64 bytes in hex,
// which cuBLASLt checks again before use.
#include <cublasLt.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// cuBLASLt's functions by address, so that the program starts without the library.
struct CublasFunctions {
// A declaration cannot stand in parentheses.
#define LATHE_FUNCTION(name) decltype(&cublasLt##name) name = nullptr // NOLINT(bugprone-macro-parentheses)
    LATHE_FUNCTION(Create);
    LATHE_FUNCTION(Matmul);
    LATHE_FUNCTION(MatmulDescCreate);
    LATHE_FUNCTION(MatmulDescDestroy);
    LATHE_FUNCTION(MatmulDescSetAttribute);
    LATHE_FUNCTION(MatrixLayoutCreate);
    LATHE_FUNCTION(MatrixLayoutDestroy);
    LATHE_FUNCTION(MatrixLayoutSetAttribute);
    LATHE_FUNCTION(MatmulPreferenceCreate);
    LATHE_FUNCTION(MatmulPreferenceDestroy);
    LATHE_FUNCTION(MatmulPreferenceSetAttribute);
    LATHE_FUNCTION(MatmulAlgoGetHeuristic);
    LATHE_FUNCTION(MatmulAlgoCheck);
#undef LATHE_FUNCTION
    std::string missing; ///< why they cannot be used
};

const CublasFunctions& lt() {
    static const CublasFunctions functions = [] {
        CublasFunctions f;
        const Library& library = cublaslt_library();
        if (!library.found) {
            f.missing = library.cause;
            return f;
        }
#define LATHE_FIND(name)                                                                                               \
    f.name = reinterpret_cast<decltype(f.name)>(library.symbol("cublasLt" #name));                                     \
    if (f.name == nullptr) f.missing = "cublasLt" #name " is not in " + library.path
        LATHE_FIND(Create);
        LATHE_FIND(Matmul);
        LATHE_FIND(MatmulDescCreate);
        LATHE_FIND(MatmulDescDestroy);
        LATHE_FIND(MatmulDescSetAttribute);
        LATHE_FIND(MatrixLayoutCreate);
        LATHE_FIND(MatrixLayoutDestroy);
        LATHE_FIND(MatrixLayoutSetAttribute);
        LATHE_FIND(MatmulPreferenceCreate);
        LATHE_FIND(MatmulPreferenceDestroy);
        LATHE_FIND(MatmulPreferenceSetAttribute);
        LATHE_FIND(MatmulAlgoGetHeuristic);
        LATHE_FIND(MatmulAlgoCheck);
#undef LATHE_FIND
        return f;
    }();
    return functions;
}

Error lt_error(cublasStatus_t status, const std::string& what) {
    return {ErrorCode::unsupported, "cuBLASLt refused " + what + " (status " + std::to_string(status) + ")", "", ""};
}
#define LATHE_LT(call, what)                                                                                           \
    do {                                                                                                               \
        if (const cublasStatus_t lathe_lt_ = (call); lathe_lt_ != CUBLAS_STATUS_SUCCESS)                               \
            return lt_error(lathe_lt_, what);                                                                          \
    } while (false)

/// One handle a device; cuBLASLt's handles may be shared by threads. They live as long as the process.
Result<cublasLtHandle_t> handle_of(int device) {
    static std::mutex mutex;
    static std::map<int, cublasLtHandle_t> handles;
    const std::lock_guard lock(mutex);
    cublasLtHandle_t& handle = handles[device];
    if (handle == nullptr) LATHE_LT(lt().Create(&handle), "to make a handle");
    return handle;
}

/// What the algorithm does with the epilogue: all of it, or nothing (our kernel follows in place).
enum class Form { fused, alone };
constexpr const char* form_names[] = {"fused", "alone"};

/// D[N x M] = A^T B in column-major order: A the weight, B the input.
struct Problem {
    std::int64_t rows_a = 0, columns_a = 0, ld_a = 0, rows_b = 0, columns_b = 0, ld_b = 0, n = 0, m = 0, ld_d = 0;
    bool transpose_a = true, transpose_b = false;
    std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;
    cudaDataType_t type_a = CUDA_R_16F, type_b = CUDA_R_16F, type_d = CUDA_R_16F, scale_type = CUDA_R_32F;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    bool bias = false, alpha_vector = false;
    cudaDataType_t bias_type = CUDA_R_32F;
    float alpha = 1, beta = 0;

    Form form = Form::fused;
    Epilogue ours;
    EpilogueInPlaceParams after{};
    Place a, b, d, residual;
    std::uint32_t alignment = value_alignment; ///< of all operands
    WeightId weight = none;
};

Result<cudaDataType_t> data_type(ElementType type, const FusedOp& op) {
    switch (type) {
        case ElementType::f32: return CUDA_R_32F;
        case ElementType::f16: return CUDA_R_16F;
        case ElementType::bf16: return CUDA_R_16BF;
        case ElementType::s8: return CUDA_R_8I;
        default: return cannot(op, "cuBLASLt does not multiply this type");
    }
}

Result<Problem> product_problem(const FusedOp& op, const Plan& plan, Form form) {
    LATHE_TRY(const ImplicitGemm gemm, implicit_gemm(op, plan));
    if (!gemm.pointwise()) return cannot(op, "cuBLASLt: not a 1x1 convolution of stride 1");
    const ImplicitGemmParams& q = gemm.params;
    if (q.epilogue.residual_last != 0) return cannot(op, "cuBLASLt adds no residual behind an activation");
    if (q.k_stride != q.k || q.k_pitch != q.k) return cannot(op, "cuBLASLt leaves padding unwritten");
    if (gemm.in != gemm.weight) return cannot(op, "cuBLASLt takes an input and weights of one type");
    const Epilogue& e = gemm.epilogue;
    Problem p;
    p.form = form;
    p.ours = e;
    p.n = q.k;
    p.m = gemm.rows();
    p.rows_a = q.c;
    p.columns_a = q.k;
    p.ld_a = q.c;
    p.rows_b = q.c;
    p.columns_b = p.m;
    p.ld_b = q.c_pitch;
    p.ld_d = q.k_stride;
    p.weight = gemm.weight_id;
    p.b = gemm.input;
    p.d = gemm.output;
    p.residual = gemm.residual;
    LATHE_TRY(p.type_a, data_type(gemm.weight, op));
    LATHE_TRY(p.type_b, data_type(gemm.in, op));
    LATHE_TRY(p.type_d, data_type(gemm.out, op));
    const bool s8 = gemm.in == ElementType::s8;
    if (gemm.in == ElementType::f32) p.compute = op.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    if (s8) {
        if (gemm.out != ElementType::s8) return cannot(op, "cuBLASLt: int8 products go to int8 alone");
        if (q.c % 16 != 0 || q.k % 16 != 0) return cannot(op, "cuBLASLt: int8 channels not a multiple of 16");
        p.compute = CUBLAS_COMPUTE_32I;
    }
    const bool bare = e.scale == none && e.bias == none && e.residual == none && e.act == Activation::none &&
                      e.output_scale_inverse == 1;
    if (form == Form::alone) {
        if (s8 || bare) return cannot(op, "nothing is left to do after the product");
        p.after.type = type_number(gemm.out);
        p.after.channels = q.k;
        p.after.rows = p.m;
        p.after.epilogue = q.epilogue;
        return p;
    }
    if (e.output_scale_inverse != 1) return cannot(op, "cuBLASLt does not scale behind an activation");
    if (e.scale != none && !s8) return cannot(op, "cuBLASLt: a scale a channel is for int8");
    if (s8 && e.scale == none) return cannot(op, "cuBLASLt: int8 without scales");
    p.alpha_vector = e.scale != none;
    if (e.residual != none) {
        if (plan.values[e.residual].type != gemm.out) return cannot(op, "cuBLASLt: a residual of another type");
        p.beta = e.residual_scale;
    }
    p.bias = e.bias != none;
    p.bias_type = s8 || gemm.out == ElementType::f32 ? CUDA_R_32F : p.type_d;
    switch (e.act) {
        case Activation::none: p.epilogue = p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT; break;
        case Activation::relu: p.epilogue = p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU; break;
        case Activation::gelu_erf:
            // Theirs is the tanh form. Rounding of narrower types hides the difference (who compares with the reference
            // decides); in exact f32 every algorithm would be refused, and none tried with our epilogue behind it.
            if (gemm.out == ElementType::f32 && !op.tf32) return cannot(op, "cuBLASLt's GELU is the tanh form");
            [[fallthrough]];
        case Activation::gelu_tanh: p.epilogue = p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU; break;
        default: return cannot(op, "cuBLASLt has no such activation");
    }
    return p;
}

Result<Problem> batched_problem(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<BatchedGemm>(op.detail);
    const Value &a = plan.values[op.inputs[0]], &b = plan.values[op.inputs[1]], &c = plan.values[op.outputs[0]];
    if (a.type != b.type || a.type != c.type || a.type == ElementType::s8)
        return cannot(op, "cuBLASLt: a batched product of several types");
    Problem p;
    LATHE_TRY(p.type_a, data_type(a.type, op));
    p.type_b = p.type_d = p.type_a;
    if (a.type == ElementType::f32) p.compute = op.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    p.n = detail.n;
    p.m = detail.m;
    p.ld_d = detail.n;
    p.alpha = detail.alpha;
    // theirs: A is our b, B our a
    p.transpose_a = detail.transpose_b;
    p.rows_a = detail.transpose_b ? detail.k : detail.n;
    p.columns_a = detail.transpose_b ? detail.n : detail.k;
    p.ld_a = p.rows_a;
    p.transpose_b = detail.transpose_a;
    p.rows_b = detail.transpose_a ? detail.m : detail.k;
    p.columns_b = detail.transpose_a ? detail.k : detail.m;
    p.ld_b = detail.pitch_of_a();
    p.batch = detail.batch;
    p.stride_d = detail.m * detail.n;
    const auto stride = [&](const Value& v, std::int64_t size, std::int64_t& into) -> Result<void> {
        const std::int64_t count = element_count(v.dims);
        if (count == size * detail.batch)
            into = size;
        else if (count == size)
            into = 0;
        else
            return cannot(op, "cuBLASLt: a batch that is broadcast in part");
        return {};
    };
    LATHE_CHECK(stride(b, detail.k * detail.n, p.stride_a));
    LATHE_CHECK(stride(a, p.ld_b * p.columns_b, p.stride_b));
    p.a = place_of(plan, op.inputs[1]);
    p.b = place_of(plan, op.inputs[0]);
    p.d = place_of(plan, op.outputs[0]);
    return p;
}

Result<Problem> problem_of(const FusedOp& op, const Plan& plan, Form form) {
    const bool batched = std::holds_alternative<BatchedGemm>(op.detail);
    if (batched && form == Form::alone) return cannot(op, "no epilogue");
    LATHE_TRY(Problem problem, batched ? batched_problem(op, plan) : product_problem(op, plan, form));
    for (const auto& ids : {op.inputs, op.outputs})
        for (const ValueId id : ids)
            problem.alignment = std::min(problem.alignment, static_cast<std::uint32_t>(alignment_of(plan, id)));
    return problem;
}

/// cuBLASLt's descriptors of a problem; addresses of bias and scales are set at binding.
class Descriptors {
public:
    static Result<std::unique_ptr<Descriptors>> make(const Problem& p) {
        auto d = std::make_unique<Descriptors>();
        LATHE_LT(lt().MatmulDescCreate(&d->operation, p.compute, p.scale_type), "a product's description");
        const cublasOperation_t ops[2] = {p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                          p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N};
        LATHE_CHECK(d->set(CUBLASLT_MATMUL_DESC_TRANSA, ops[0]));
        LATHE_CHECK(d->set(CUBLASLT_MATMUL_DESC_TRANSB, ops[1]));
        LATHE_CHECK(d->set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue));
        if (p.bias) LATHE_CHECK(d->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.bias_type));
        if (p.alpha_vector) {
            const std::int32_t mode = p.beta == 0 ? CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO
                                                  : CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
            LATHE_CHECK(d->set(CUBLASLT_MATMUL_DESC_POINTER_MODE, mode));
        }
        LATHE_CHECK(d->layout(d->a, p.type_a, p.rows_a, p.columns_a, p.ld_a, p.batch, p.stride_a));
        LATHE_CHECK(d->layout(d->b, p.type_b, p.rows_b, p.columns_b, p.ld_b, p.batch, p.stride_b));
        LATHE_CHECK(d->layout(d->d, p.type_d, p.n, p.m, p.ld_d, p.batch, p.stride_d));
        return d;
    }
    Descriptors() = default;
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;
    ~Descriptors() {
        for (cublasLtMatrixLayout_t layout : {a, b, d})
            if (layout != nullptr) lt().MatrixLayoutDestroy(layout);
        if (operation != nullptr) lt().MatmulDescDestroy(operation);
    }

    template <class T>
    Result<void> set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
        LATHE_LT(lt().MatmulDescSetAttribute(operation, attribute, &value, sizeof value), "an attribute of a product");
        return {};
    }

    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;

private:
    static Result<void> layout(cublasLtMatrixLayout_t& into, cudaDataType_t type, std::int64_t rows,
                               std::int64_t columns, std::int64_t ld, std::int64_t batch, std::int64_t stride) {
        LATHE_LT(lt().MatrixLayoutCreate(&into, type, static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns), ld),
                 "a matrix's description");
        if (batch > 1) {
            const auto count = static_cast<std::int32_t>(batch);
            LATHE_LT(lt().MatrixLayoutSetAttribute(into, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                     "a batch");
            LATHE_LT(lt().MatrixLayoutSetAttribute(into, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                   sizeof stride),
                     "a batch");
        }
        return {};
    }
};

constexpr std::size_t workspace_limit = std::size_t{32} << 20;

std::string hex(const cublasLtMatmulAlgo_t& algorithm) {
    std::string text;
    constexpr char digits[] = "0123456789abcdef";
    for (const std::uint64_t word : algorithm.data)
        for (int shift = 60; shift >= 0; shift -= 4)
            text += digits[(word >> shift) & 15U];
    return text;
}

bool from_hex(std::string_view text, cublasLtMatmulAlgo_t& algorithm) {
    if (text.size() != 16 * std::size(algorithm.data)) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        std::uint64_t& word = algorithm.data[i / 16];
        word = (i % 16 == 0 ? 0 : word << 4) | static_cast<std::uint64_t>(digit);
    }
    return true;
}

Result<std::vector<cublasLtMatmulAlgo_t>> algorithms(const Problem& p, const Device& device, int count) {
    LATHE_TRY(const cublasLtHandle_t handle, handle_of(device.index));
    LATHE_TRY(const auto descriptors, Descriptors::make(p));
    cublasLtMatmulPreference_t preference = nullptr;
    LATHE_LT(lt().MatmulPreferenceCreate(&preference), "a preference");
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(count));
    int returned = 0;
    cublasStatus_t status = lt().MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                              &workspace_limit, sizeof workspace_limit);
    // Parts that add themselves to the result in whatever order they end give another one each run.
    constexpr std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt().MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                   sizeof reductions);
    if (p.alignment < value_alignment)
        for (const auto attribute :
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            if (status == CUBLAS_STATUS_SUCCESS)
                status = lt().MatmulPreferenceSetAttribute(preference, attribute, &p.alignment, sizeof p.alignment);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            lt().MatmulAlgoGetHeuristic(handle, descriptors->operation, descriptors->a, descriptors->b, descriptors->d,
                                        descriptors->d, preference, count, found.data(), &returned);
    lt().MatmulPreferenceDestroy(preference);
    LATHE_LT(status, "to name an algorithm");
    std::vector<cublasLtMatmulAlgo_t> list;
    for (int i = 0; i < returned; ++i)
        if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
            list.push_back(found[static_cast<std::size_t>(i)].algo);
    return list;
}

class CublasLtProvider final : public Provider {
public:
    std::string name() const override { return "cublaslt"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        if (!lt().missing.empty()) {
            why = lt().missing;
            return {};
        }
        std::vector<std::string> ids;
        const int count = effort == Effort::fast ? 3 : effort == Effort::standard ? 8 : 32;
        for (const Form form : {Form::fused, Form::alone}) {
            if (form == Form::alone && !ids.empty()) break;
            const auto problem = problem_of(op, plan, form);
            if (!problem) {
                if (why.empty()) why = problem.error().message;
                continue;
            }
            const auto found = algorithms(*problem, device, count);
            if (!found) {
                if (why.empty()) why = found.error().message;
                continue;
            }
            for (const auto& algorithm : *found)
                ids.push_back(std::string(form_names[static_cast<int>(form)]) + "/" + hex(algorithm));
        }
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        if (!lt().missing.empty()) return cannot(op, lt().missing);
        const bool alone = id.starts_with("alone/");
        cublasLtMatmulAlgo_t algorithm{};
        if ((!alone && !id.starts_with("fused/")) || !from_hex(std::string_view(id).substr(6), algorithm))
            return no_such_tactic(name(), id, op);
        LATHE_TRY(const Problem problem, problem_of(op, plan, alone ? Form::alone : Form::fused));
        LATHE_TRY(const cublasLtHandle_t handle, handle_of(device.index));
        LATHE_TRY(const auto descriptors, Descriptors::make(problem));
        cublasLtMatmulHeuristicResult_t checked{};
        if (lt().MatmulAlgoCheck(handle, descriptors->operation, descriptors->a, descriptors->b, descriptors->d,
                                 descriptors->d, &algorithm, &checked) != CUBLAS_STATUS_SUCCESS)
            return no_such_tactic(name(), id, op);
        const std::size_t workspace = checked.workspaceSize;
        auto bind = [problem, algorithm, handle, workspace](const Pointers& pointers) -> Result<Launch> {
            return bound(problem, algorithm, handle, workspace, pointers);
        };
        return make_kernel("cublasLt for " + op.name, workspace, false, std::move(bind));
    }

private:
    static Result<Launch> bound(const Problem& problem, const cublasLtMatmulAlgo_t& algorithm, cublasLtHandle_t handle,
                                std::size_t workspace, const Pointers& pointers) {
        LATHE_TRY(std::shared_ptr<Descriptors> descriptors, Descriptors::make(problem));
        std::shared_ptr<DeviceMemory> narrow_bias;
        if (problem.bias) {
            const void* bias = weight_address(pointers, problem.ours.bias);
            if (problem.bias_type != CUDA_R_32F) { // f16 products take a bias of f16
                const auto count = static_cast<std::size_t>(problem.n);
                LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(count * 2, "a bias vector"));
                ConvertParams convert{};
                convert.x = bias;
                convert.y = memory.data();
                convert.x_type = type_f32;
                convert.y_type = problem.bias_type == CUDA_R_16F ? type_f16 : type_bf16;
                convert.factor = 1;
                convert.lowest = -65504.0F;
                convert.count = problem.n;
                LATHE_CUDA(launch_convert(convert, nullptr, false), "converting a bias vector");
                LATHE_CUDA(cudaStreamSynchronize(nullptr), "converting a bias vector");
                bias = memory.data();
                narrow_bias = std::make_shared<DeviceMemory>(std::move(memory));
            }
            LATHE_CHECK(descriptors->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
        }
        const void* a = problem.weight != none ? weight_address(pointers, problem.weight) : problem.a.in(pointers);
        const void* b = problem.b.in(pointers);
        void* d = problem.d.in(pointers);
        const void* c = problem.beta != 0 ? problem.residual.in(pointers) : d;
        const void* scales = problem.alpha_vector ? weight_address(pointers, problem.ours.scale) : nullptr;
        EpilogueInPlaceParams after = problem.after;
        if (problem.form == Form::alone) {
            bind_epilogue(after.epilogue, problem.ours, problem.residual, pointers);
            after.data = d;
        }
        return Launch([=, space = pointers.workspace](cudaStream_t stream, bool) -> cudaError_t {
            (void)narrow_bias; // kept alive
            const float alpha = problem.alpha, beta = problem.beta;
            const cublasStatus_t status = lt().Matmul(handle, descriptors->operation,
                                                      scales != nullptr ? scales : static_cast<const void*>(&alpha), a,
                                                      descriptors->a, b, descriptors->b, &beta, c, descriptors->d, d,
                                                      descriptors->d, &algorithm, space, workspace, stream);
            if (status != CUBLAS_STATUS_SUCCESS) return cudaErrorLaunchFailure;
            return problem.form == Form::alone ? launch_epilogue_in_place(after, stream, false) : cudaSuccess;
        });
    }
};

} // namespace

std::unique_ptr<Provider> make_cublaslt_provider() { return std::make_unique<CublasLtProvider>(); }

} // namespace lathe::cuda
