#include "backends/cuda/tactics/provider.hpp"

namespace lathe::cuda {

namespace {

std::vector<std::unique_ptr<Provider>> all() {
    std::vector<std::unique_ptr<Provider>> list;
    // own kernels first: they cost no time to prepare and no library at run time
    list.push_back(make_sm90_provider());
    list.push_back(make_wide_provider());
    list.push_back(make_chain_provider());
    list.push_back(make_own_provider());
    list.push_back(make_cublaslt_provider());
#ifdef LATHE_HAS_CUDNN_FRONTEND
    list.push_back(make_cudnn_provider());
#endif
    list.push_back(make_generated_provider());
    list.push_back(make_reference_provider()); // the last resort, and what the others are compared with
    return list;
}

} // namespace

const std::vector<std::unique_ptr<Provider>>& providers() {
    static const std::vector<std::unique_ptr<Provider>> list = all();
    return list;
}

} // namespace lathe::cuda
