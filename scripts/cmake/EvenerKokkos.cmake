# SPDX-License-Identifier: Apache-2.0
# evener_host_levels(variable): EVENER_HOST_LEVELS, or this machine's level when that is empty.
# evener_find_kokkos(level): imports Kokkos::kokkos into the calling folder, built for x86-64-<level>.
#   Each level needs a folder (add_subdirectory) of its own, since imported targets belong to folders.
#   A Kokkos that find_package sees (Kokkos_DIR, Kokkos_DIR_<level>, CMAKE_PREFIX_PATH, a module) is
#   taken if it fits: a small plug-in is really linked from it. Else the one that
#   scripts/setup_kokkos.sh left in the cache folder, and the reason is said.

function(evener_host_levels variable)
  set(levels ${EVENER_HOST_LEVELS})
  if(NOT levels)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/x86_64_level.sh
                    OUTPUT_VARIABLE levels OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(${variable} ${levels} PARENT_SCOPE)
endfunction()

function(evener_kokkos_cache level variable)
  if(DEFINED ENV{EVENER_CACHE})
    set(cache $ENV{EVENER_CACHE})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(cache $ENV{XDG_CACHE_HOME}/evener)
  else()
    set(cache $ENV{HOME}/.cache/evener)
  endif()
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_CXX_COMPILER_VERSION})
  set(${variable} ${cache}/kokkos-3.4.1-gcc${major}-x86-64-${level} PARENT_SCOPE)
endfunction()

function(evener_find_kokkos level)
  if(NOT EVENER_KOKKOS_FOLDER_${level})
    set(site ${Kokkos_DIR})
    if(Kokkos_DIR_${level})
      set(site ${Kokkos_DIR_${level}})
    endif()
    unset(fits CACHE)
    set(probe ${CMAKE_CURRENT_BINARY_DIR}/kokkos_probe)
    try_compile(fits ${probe}
                ${PROJECT_SOURCE_DIR}/scripts/cmake/kokkos_probe kokkos_probe
                CMAKE_FLAGS "-DKokkos_DIR:PATH=${site}" "-DLEVEL:STRING=${level}"
                            "-DCMAKE_PREFIX_PATH:STRING=${CMAKE_PREFIX_PATH}")
    file(STRINGS ${probe}/verdict.txt verdict)
    evener_kokkos_cache(${level} folder)
    if(fits AND verdict MATCHES "^folder: (.*)")
      set(folder ${CMAKE_MATCH_1})
    else()
      set(reason "it does not link into a plug-in; is it position-independent?")
      if(verdict MATCHES "^unfit: (.*)")
        set(reason "${CMAKE_MATCH_1}")
      endif()
      message(STATUS "Kokkos for x86-64-${level}: no installed one fits (${reason})")
      if(NOT EXISTS ${folder}/lib/cmake/Kokkos/KokkosConfig.cmake)
        message(FATAL_ERROR "no Kokkos for x86-64-${level} (nor in ${folder}); run "
                            "scripts/setup_kokkos.sh ${level}, or set Kokkos_DIR")
      endif()
      string(APPEND folder /lib/cmake/Kokkos)
    endif()
    set(EVENER_KOKKOS_FOLDER_${level} ${folder} CACHE INTERNAL "Kokkos of this level")
    message(STATUS "Kokkos for x86-64-${level}: ${folder}")
  endif()
  unset(Kokkos_DIR)
  unset(Kokkos_DIR CACHE)
  set(CMAKE_FIND_PACKAGE_PREFER_CONFIG ON)
  find_package(Kokkos REQUIRED CONFIG PATHS ${EVENER_KOKKOS_FOLDER_${level}} NO_DEFAULT_PATH)
endfunction()
