# The options of the compiler, and the kernels of each instruction set, for the target TL_MODULE.
get_filename_component(TL_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

if(MSVC)  # clang-cl takes clang's options behind /clang:
  set(TL_COMMON /W3 /clang:-ffp-contract=off)
  set(TL_FAST /W3 /O2 /clang:-O3 /clang:-ffp-contract=fast /clang:-fno-math-errno /clang:-fno-trapping-math)
else()
  set(TL_COMMON -Wall -Wextra -ffp-contract=off)
  # Where in a line of the instruction cache a loop happens to begin costs up to 1.4 times its time.
  set(TL_FAST -Wall -Wextra -Wno-psabi -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
      -fvisibility=hidden -falign-loops=64)
endif()

# L-BFGS takes the same steps on every machine: this file rounds each product and each sum.
set_source_files_properties(${TL_ROOT}/src/cpp/core/history_kernels.cpp PROPERTIES
  COMPILE_OPTIONS $<IF:$<BOOL:${MSVC}>,/clang:-ffp-contract=off,-ffp-contract=off>)

# The kernels are compiled once per instruction set, each into its own namespace, and chosen at run
# time. "baseline" uses 16-byte vectors that every x86-64 and aarch64 machine has.
function(tl_kernels isa bytes)
  file(GLOB sources CONFIGURE_DEPENDS ${TL_ROOT}/src/cpp/core/*kernels.cpp)
  add_library(kernels_${isa} OBJECT ${sources})
  if(TL_EMULATE)
    set(ARGN "")
  endif()
  target_compile_definitions(kernels_${isa} PRIVATE TL_ISA=${isa} TL_VECTOR_BYTES=${bytes})
  target_compile_options(kernels_${isa} PRIVATE ${TL_FAST} ${ARGN})
  target_include_directories(kernels_${isa} PRIVATE ${TL_ROOT}/src/cpp)
  target_sources(${TL_MODULE} PRIVATE $<TARGET_OBJECTS:kernels_${isa}>)
  string(TOUPPER ${isa} upper)
  target_compile_definitions(${TL_MODULE} PRIVATE TL_HAVE_${upper}=1)
endfunction()

tl_kernels(baseline 16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "arm64"
    AND NOT TL_BASELINE)
  if(MSVC)
    tl_kernels(avx2 32 /arch:AVX2)
    tl_kernels(avx512 64 /arch:AVX512)
  else()
    tl_kernels(avx2 32 -mavx2 -mfma)
    tl_kernels(avx512 64 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512)
  endif()
endif()
