// train: strategy scopes.
#include "everstep/train/strategy.h"

namespace everstep {
namespace {
// As in tf.distribute, the current strategy belongs to the thread.
thread_local Strategy* t_current = nullptr;
}  // namespace

StrategyScope::StrategyScope(Strategy* strategy) : outer_(t_current) { t_current = strategy; }
StrategyScope::~StrategyScope() { t_current = outer_; }
Strategy* StrategyScope::Current() { return t_current; }

}  // namespace everstep
