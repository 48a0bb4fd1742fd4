#include "pool.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace nispa {
namespace {

constexpr int kMostThreads = 64;
constexpr int kSpins = 2000;  // some 30 µs: the gaps between the kernels of one training step are shorter

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

thread_local bool inside = false;

// One parallel region: thread i takes task i, if nobody did, and then whatever is left.
struct Region {
  int threads, tasks;
  const std::function<void(int)>* work;
  std::atomic<int> next{0};
  std::atomic<bool> taken[kMostThreads] = {};

  void take(int thread) {
    inside = true;
    if (thread < std::min(threads, tasks) && !taken[thread].exchange(true)) (*work)(thread);
    for (int task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      if (task >= threads || !taken[task].exchange(true)) (*work)(task);
    inside = false;
  }
};

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { loop(i); });
  }

  ~Pool() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      stop_ = true;
      round_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  int threads() const { return int(workers_.size()) + 1; }

  void run(Region& region) {
    region_ = &region;
    busy_.store(int(workers_.size()), std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> hold(mutex_);
      round_.fetch_add(1, std::memory_order_release);
    }
    if (asleep_.load() > 0) wake_.notify_all();
    region.take(0);
    for (int spins = 0; busy_.load(std::memory_order_acquire) > 0; spins++) {
      if (spins < 100 * kSpins)
        relax();
      else
        std::this_thread::yield();  // more threads than cores
    }
  }

 private:
  void loop(int thread) {
    unsigned seen = 0;
    for (;;) {
      int spins = 0;
      while (round_.load(std::memory_order_acquire) == seen && spins++ < kSpins) relax();
      if (round_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> hold(mutex_);
        asleep_.fetch_add(1);
        wake_.wait(hold, [&] { return round_.load(std::memory_order_acquire) != seen; });
        asleep_.fetch_sub(1);
      }
      seen = round_.load(std::memory_order_acquire);
      if (stop_) return;
      region_->take(thread);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<unsigned> round_{0};
  std::atomic<int> asleep_{0}, busy_{0};
  Region* region_ = nullptr;
  bool stop_ = false;
};

// The OpenMP runtime that torch brought into the process, if it can be seen: its threads are awake after torch's own
// parallel regions, and two sets of waiting threads on the same cores would slow each other down.
struct OpenMP {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread)() = nullptr;
};

const OpenMP& openmp() {
  static const OpenMP found = [] {
    OpenMP omp;
    if (std::getenv("NISPA_OWN_THREADS") != nullptr) return omp;
    *reinterpret_cast<void**>(&omp.parallel) = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    *reinterpret_cast<void**>(&omp.thread) = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    if (omp.thread == nullptr) omp.parallel = nullptr;
    return omp;
  }();
  return found;
}

std::mutex owner;  // one parallel region at a time; a second Python thread waits
Pool* pool = nullptr;
std::atomic<int> wanted{1};

void forget_after_fork() {  // the child has none of the parent's threads
  pool = nullptr;
  new (&owner) std::mutex;
}

}  // namespace

void set_threads(int count) { wanted = count < 1 ? 1 : count > kMostThreads ? kMostThreads : count; }

int threads_here() { return inside ? 1 : int(wanted); }

void parallel(int tasks, const std::function<void(int)>& work) {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_after_fork);
  (void)registered;
  const int threads = threads_here();
  if (threads == 1 || tasks <= 1) {
    for (int task = 0; task < tasks; task++) work(task);
    return;
  }
  Region region;
  region.threads = threads;
  region.tasks = tasks;
  region.work = &work;
  if (openmp().parallel != nullptr) {
    openmp().parallel([](void* data) { static_cast<Region*>(data)->take(openmp().thread()); }, &region,
                      unsigned(threads), 0);
    return;
  }
  std::lock_guard<std::mutex> hold(owner);
  if (pool == nullptr || pool->threads() != threads) {
    delete pool;
    pool = new Pool(threads);
  }
  pool->run(region);
}

}  // namespace nispa
