#include "ptx/body/known_names.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace emulator::ptx {

namespace {

// Instructions whose number of operands does not depend on their form, or only between bounds. An instruction
// that is not listed may have operands of any form: the executor refuses the kernel at its launch if it lacks
// it.
constexpr OperandCount operand_counts[] = {
    {"abs", 2, 2, "2"},       {"add", 3, 3, "3"},        {"addc", 3, 3, "3"},      {"and", 3, 3, "3"},
    {"bfe", 4, 4, "4"},       {"bfi", 5, 5, "5"},        {"bfind", 2, 2, "2"},     {"bmsk", 3, 3, "3"},
    {"bra", 1, 1, "1"},       {"brev", 2, 2, "2"},       {"brx", 2, 2, "2"},       {"clz", 2, 2, "2"},
    {"cnot", 2, 2, "2"},      {"copysign", 3, 3, "3"},   {"cos", 2, 2, "2"},       {"cvta", 2, 2, "2"},
    {"cvt", 2, 4, "2 to 4"},  {"div", 3, 3, "3"},        {"ex2", 2, 2, "2"},       {"exit", 0, 0, "none"},
    {"fma", 4, 4, "4"},       {"isspacep", 2, 2, "2"},   {"ld", 2, 3, "2 or 3"},   {"lg2", 2, 2, "2"},
    {"lop3", 5, 7, "5 to 7"}, {"mad", 4, 4, "4"},        {"madc", 4, 4, "4"},      {"mad24", 4, 4, "4"},
    {"max", 3, 4, "3 or 4"},  {"min", 3, 4, "3 or 4"},   {"mov", 2, 2, "2"},       {"mul", 3, 3, "3"},
    {"mul24", 3, 3, "3"},     {"nanosleep", 1, 1, "1"},  {"neg", 2, 2, "2"},       {"not", 2, 2, "2"},
    {"or", 3, 3, "3"},        {"popc", 2, 2, "2"},       {"prmt", 4, 4, "4"},      {"rcp", 2, 2, "2"},
    {"rem", 3, 3, "3"},       {"ret", 0, 0, "none"},     {"rsqrt", 2, 2, "2"},     {"sad", 4, 4, "4"},
    {"selp", 4, 4, "4"},      {"set", 3, 4, "3 or 4"},   {"setp", 3, 4, "3 or 4"}, {"shf", 4, 4, "4"},
    {"shl", 3, 3, "3"},       {"shr", 3, 3, "3"},        {"sin", 2, 2, "2"},       {"slct", 4, 4, "4"},
    {"sqrt", 2, 2, "2"},      {"st", 2, 3, "2 or 3"},    {"sub", 3, 3, "3"},       {"subc", 3, 3, "3"},
    {"szext", 3, 3, "3"},     {"tanh", 2, 2, "2"},       {"testp", 2, 2, "2"},     {"trap", 0, 0, "none"},
    {"xor", 3, 3, "3"},       {"atom", 2, 5, "2 to 5"},  {"red", 2, 4, "2 to 4"},  {"call", 1, 4, "1 to 4"},
    {"bar", 1, 4, "1 to 4"},  {"shfl", 4, 5, "4 or 5"},  {"vote", 2, 3, "2 or 3"}, {"match", 3, 3, "3"},
    {"redux", 3, 3, "3"},     {"activemask", 1, 1, "1"},
};

// Names of instructions that have several words; ptxas 13.0 was asked of each.
constexpr std::string_view long_names =
    " "
    "bar.arrive bar.cta.arrive bar.cta.red bar.red bar.warp barrier.arrive barrier.cluster.arrive "
    "barrier.cluster.wait barrier.cta.arrive barrier.cta.red barrier.red "
    "clusterlaunchcontrol.query_cancel clusterlaunchcontrol.try_cancel.async cp.async.bulk.commit_group "
    "cp.async.bulk.prefetch.tensor cp.async.bulk.tensor cp.async.bulk.wait_group cp.async.commit_group "
    "cp.async.mbarrier.arrive cp.async.wait_all cp.async.wait_group cp.reduce.async.bulk.tensor "
    "createpolicy.cvt createpolicy.fractional createpolicy.range cvt.pack cvta.to div.full dp2a.hi "
    "dp2a.lo fence.proxy mad.hi mad.lo mad24.hi mad24.lo madc.hi madc.lo mbarrier.arrive.expect_tx "
    "mbarrier.arrive_drop.expect_tx mbarrier.complete_tx mbarrier.expect_tx mbarrier.init "
    "mbarrier.inval mbarrier.pending_count mbarrier.test_wait.parity mbarrier.try_wait.parity "
    "membar.proxy mul.hi mul.lo mul.wide mul24.hi mul24.lo multimem.ld_reduce multimem.red multimem.st "
    "pmevent.mask red.async setmaxnreg.dec setmaxnreg.inc shf.l shf.r st.async st.bulk tcgen05.alloc "
    "tcgen05.commit tcgen05.cp tcgen05.dealloc tcgen05.fence::after_thread_sync "
    "tcgen05.fence::before_thread_sync tcgen05.ld.red tcgen05.mma.ws tcgen05.relinquish_alloc_permit "
    "tcgen05.shift tcgen05.st tcgen05.wait::ld tcgen05.wait::st tensormap.cp_fenceproxy "
    "tensormap.replace wgmma.commit_group wgmma.fence wgmma.mma_async wgmma.wait_group wmma.load.a "
    "wmma.load.b wmma.load.c wmma.mma wmma.store.d ";

} // namespace

bool is_in_name(std::string_view words) {
  const std::string wanted = " " + std::string(words);
  for (size_t at = 0; (at = long_names.find(wanted, at)) != std::string_view::npos; at += wanted.size())
    if (std::string_view(" .:").find(long_names[at + wanted.size()]) != std::string_view::npos)
      return true;
  return false;
}

const OperandCount *find_operand_count(std::string_view opcode) {
  static const auto *table = [] {
    auto *built = new std::unordered_map<std::string_view, const OperandCount *>;
    for (const OperandCount &entry : operand_counts)
      (*built)[entry.mnemonic] = &entry;
    return built;
  }();
  auto found = table->find(opcode.substr(0, opcode.find('.')));
  return found == table->end() ? nullptr : found->second;
}

bool is_special(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"%tid",
                                                             "%ntid",
                                                             "%laneid",
                                                             "%warpid",
                                                             "%nwarpid",
                                                             "%ctaid",
                                                             "%nctaid",
                                                             "%smid",
                                                             "%nsmid",
                                                             "%gridid",
                                                             "%is_explicit_cluster",
                                                             "%clusterid",
                                                             "%nclusterid",
                                                             "%cluster_ctaid",
                                                             "%cluster_nctaid",
                                                             "%cluster_ctarank",
                                                             "%cluster_nctarank",
                                                             "%lanemask_eq",
                                                             "%lanemask_le",
                                                             "%lanemask_lt",
                                                             "%lanemask_ge",
                                                             "%lanemask_gt",
                                                             "%clock",
                                                             "%clock_hi",
                                                             "%clock64",
                                                             "%globaltimer",
                                                             "%globaltimer_lo",
                                                             "%globaltimer_hi",
                                                             "%total_smem_size",
                                                             "%aggr_smem_size",
                                                             "%dynamic_smem_size",
                                                             "%current_graph_exec"};
  static constexpr std::string_view numbered[] = {"%pm", "%envreg", "%reserved_smem_offset_"};
  return names.count(name) != 0 || std::any_of(std::begin(numbered), std::end(numbered), [&](auto prefix) {
           return name.substr(0, prefix.size()) == prefix;
         });
}

} // namespace emulator::ptx
