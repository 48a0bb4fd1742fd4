#include "pool.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nispa {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kSpins = 2000;  // some 30 µs: the gaps between the kernels of one training step are shorter

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { loop(); });
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

  void run(int tasks, const std::function<void(int)>& work) {
    work_ = &work;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(int(workers_.size()), std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> hold(mutex_);
      round_.fetch_add(1, std::memory_order_release);
    }
    if (asleep_.load() > 0) wake_.notify_all();
    take();
    for (int spins = 0; busy_.load(std::memory_order_acquire) > 0; spins++) {
      if (spins < 100 * kSpins)
        relax();
      else
        std::this_thread::yield();  // more threads than cores
    }
  }

 private:
  void take() {
    for (;;) {
      const int task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      (*work_)(task);
    }
  }

  void loop() {
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
      take();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<unsigned> round_{0};
  std::atomic<int> asleep_{0}, busy_{0}, next_{0};
  const std::function<void(int)>* work_ = nullptr;
  int tasks_ = 0;
  bool stop_ = false;
};

// The OpenMP runtime that torch brought into the process, if it can be seen: its threads are awake after torch's own
// parallel regions, and two sets of waiting threads on the same cores would slow each other down.
using Team = void (*)(void (*)(void*), void*, unsigned, unsigned);

Team team() {
  static const Team found =
      std::getenv("NISPA_OWN_THREADS") ? nullptr : reinterpret_cast<Team>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return found;
}

struct Region {
  std::atomic<int> next{0};
  int tasks;
  const std::function<void(int)>* work;
};

void take_tasks(void* data) {
  auto* region = static_cast<Region*>(data);
  for (int task; (task = region->next.fetch_add(1, std::memory_order_relaxed)) < region->tasks;) (*region->work)(task);
}

std::mutex owner;  // one parallel region at a time; a second Python thread waits
Pool* pool = nullptr;
int wanted = 1;

void forget_after_fork() {  // the child has none of the parent's threads
  pool = nullptr;
  new (&owner) std::mutex;
}

}  // namespace

void set_threads(int count) { wanted = count < 1 ? 1 : count; }

void parallel(int tasks, const std::function<void(int)>& work) {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_after_fork);
  (void)registered;
  if (wanted == 1 || tasks <= 1) {
    for (int task = 0; task < tasks; task++) work(task);
    return;
  }
  if (const Team run = team()) {
    Region region;
    region.tasks = tasks;
    region.work = &work;
    run(take_tasks, &region, unsigned(wanted), 0);
    return;
  }
  std::lock_guard<std::mutex> hold(owner);
  if (pool == nullptr || pool->threads() != wanted) {
    delete pool;
    pool = new Pool(wanted);
  }
  pool->run(tasks, work);
}

}  // namespace nispa
