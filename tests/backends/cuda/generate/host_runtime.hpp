// A GPU's threads on the host, for generated sources behind the portable preamble: blocks run one after another, the
// threads of a block (or of a cluster of blocks) as coroutines that take turns at barriers. Part of the text that the
// test compiles, not of the test.
#include <ucontext.h>

#include <cstdlib>
#include <vector>

namespace lathe_host {

struct Group { // threads that wait for each other
    u32 size = 0, arrived = 0, turn = 0;
};
struct Block {
    std::vector<unsigned char> shared;
    Group all;
    std::vector<Group> warps;
    std::vector<float> exchange;
};
struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    u32 index = 0, block = 0; // of the cluster
    bool done = false;
};
struct Machine {
    u32 block_x = 0, block_y = 0, block_z = 0;
    u32 index = 0; // of the running thread, where no thread waits
    Thread* running = nullptr;
    ucontext_t scheduler;
    std::vector<Block> blocks; // of the cluster
    Group cluster;
    std::vector<Thread> threads;
    void (*kernel)(void**) = nullptr;
    void** arguments = nullptr;
};
inline Machine machine;

inline void wait(Group& group) {
    const u32 turn = group.turn;
    if (++group.arrived == group.size) {
        group.arrived = 0;
        ++group.turn;
        return;
    }
    while (group.turn == turn)
        swapcontext(&machine.running->context, &machine.scheduler);
}

inline void leave(Group& group) { // a thread that has returned is waited for no longer
    --group.size;
    if (group.size > 0 && group.arrived == group.size) {
        group.arrived = 0;
        ++group.turn;
    }
}

inline void enter() {
    machine.kernel(machine.arguments);
    Thread* self = machine.running;
    Block& block = machine.blocks[self->block];
    leave(block.all);
    leave(block.warps[self->index / 32]);
    leave(machine.cluster);
    self->done = true;
    swapcontext(&self->context, &machine.scheduler);
}

} // namespace lathe_host

extern "C" {
u32 thread_index() {
    return lathe_host::machine.running != nullptr ? lathe_host::machine.running->index : lathe_host::machine.index;
}
u32 block_x() {
    return lathe_host::machine.block_x +
           (lathe_host::machine.running != nullptr ? lathe_host::machine.running->block : 0);
}
u32 block_y() { return lathe_host::machine.block_y; }
u32 block_z() { return lathe_host::machine.block_z; }
unsigned char* shared_memory_of_block() {
    return lathe_host::machine.blocks[lathe_host::machine.running->block].shared.data();
}
void block_barrier() { lathe_host::wait(lathe_host::machine.blocks[lathe_host::machine.running->block].all); }
void cluster_barrier() { lathe_host::wait(lathe_host::machine.cluster); }
float shuffle_xor(float v, int lane) {
    auto& self = *lathe_host::machine.running;
    auto& block = lathe_host::machine.blocks[self.block];
    block.exchange[self.index] = v;
    lathe_host::wait(block.warps[self.index / 32]);
    const float found = block.exchange[self.index ^ (u32)lane];
    lathe_host::wait(block.warps[self.index / 32]);
    return found;
}
float cluster_float(const float* own, u32 block) {
    auto& blocks = lathe_host::machine.blocks;
    const auto* base = blocks[lathe_host::machine.running->block].shared.data();
    const long offset = reinterpret_cast<const unsigned char*>(own) - base;
    return *reinterpret_cast<const float*>(blocks[block].shared.data() + offset);
}

void run_on_host(void (*kernel)(void**), void** arguments, const u32* grid, u32 threads, u32 cluster, u32 shared,
                 int together) {
    using namespace lathe_host;
    machine.kernel = kernel;
    machine.arguments = arguments;
    for (machine.block_z = 0; machine.block_z < grid[2]; ++machine.block_z)
        for (machine.block_y = 0; machine.block_y < grid[1]; ++machine.block_y)
            for (machine.block_x = 0; machine.block_x < grid[0]; machine.block_x += cluster) {
                if (together == 0) {
                    machine.running = nullptr;
                    for (machine.index = 0; machine.index < threads; ++machine.index)
                        kernel(arguments);
                    continue;
                }
                machine.blocks.assign(cluster, Block{});
                for (Block& block : machine.blocks) {
                    block.shared.assign(shared + 16, 0xFF);
                    block.all.size = threads;
                    block.warps.assign((threads + 31) / 32, Group{});
                    for (u32 i = 0; i < threads; ++i)
                        ++block.warps[i / 32].size;
                    block.exchange.assign(threads, 0.0f);
                }
                machine.cluster = Group{};
                machine.cluster.size = threads * cluster;
                machine.threads.resize(threads * cluster);
                for (u32 i = 0; i < threads * cluster; ++i) {
                    Thread& thread = machine.threads[i];
                    thread.stack.resize(32768);
                    thread.index = i % threads;
                    thread.block = i / threads;
                    thread.done = false;
                    getcontext(&thread.context);
                    thread.context.uc_stack.ss_sp = thread.stack.data();
                    thread.context.uc_stack.ss_size = thread.stack.size();
                    thread.context.uc_link = &machine.scheduler;
                    makecontext(&thread.context, reinterpret_cast<void (*)()>(enter), 0);
                }
                for (bool any = true; any;) {
                    any = false;
                    for (Thread& thread : machine.threads) {
                        if (thread.done) continue;
                        any = true;
                        machine.running = &thread;
                        swapcontext(&machine.scheduler, &thread.context);
                    }
                }
                machine.running = nullptr;
            }
}
}
