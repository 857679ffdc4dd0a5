#include "backends/cuda/device/handles.hpp"

namespace lathe::cuda {

// Destructors tell nobody of failures: at the end of a process the driver may be gone already.

Result<Stream> Stream::create() {
    Stream stream;
    LATHE_CUDA(cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking), "creating a stream");
    return stream;
}

Stream::~Stream() {
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Result<void> Stream::synchronize(const std::string& what) const {
    LATHE_CUDA(cudaStreamSynchronize(stream_), what);
    return {};
}

Result<Event> Event::create(bool timing) {
    Event event;
    LATHE_CUDA(cudaEventCreateWithFlags(&event.event_, timing ? cudaEventDefault : cudaEventDisableTiming),
               "creating an event");
    return event;
}

Event::~Event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

Result<void> Event::record(const Stream& stream) const {
    LATHE_CUDA(cudaEventRecord(event_, stream.get()), "recording an event");
    return {};
}

Result<void> Event::synchronize(const std::string& what) const {
    LATHE_CUDA(cudaEventSynchronize(event_), what);
    return {};
}

Result<double> Event::since(const Event& start) const {
    float milliseconds = 0;
    LATHE_CUDA(cudaEventElapsedTime(&milliseconds, start.event_, event_), "reading a time");
    return static_cast<double>(milliseconds);
}

Result<Graph> Graph::capture(const Stream& stream, const std::function<Result<void>()>& enqueue,
                             const std::string& what) {
    LATHE_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), what);
    const Result<void> enqueued = enqueue();
    cudaGraph_t recorded = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream.get(), &recorded);
    if (!enqueued || ended != cudaSuccess) {
        if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
        static_cast<void>(cudaGetLastError());
        if (!enqueued) return enqueued.error();
        return cuda_error(ended, what);
    }
    Graph graph;
    const cudaError_t made = cudaGraphInstantiate(&graph.executable_, recorded, 0);
    static_cast<void>(cudaGraphDestroy(recorded));
    if (made != cudaSuccess) return cuda_error(made, what);
    LATHE_CUDA(cudaGraphUpload(graph.executable_, stream.get()), what);
    return graph;
}

Graph::~Graph() {
    if (executable_ != nullptr) static_cast<void>(cudaGraphExecDestroy(executable_));
}

Result<void> Graph::launch(const Stream& stream) const {
    LATHE_CUDA(cudaGraphLaunch(executable_, stream.get()), "launching a graph");
    return {};
}

} // namespace lathe::cuda
