# SPDX-License-Identifier: Apache-2.0
# evener_write_link_lists(file): one line per target of the project, `target|folder|linked;...`, for
#   the test of the arrows between folders. Call it when all folders are added.
# evener_add_header_test(target header ...): compiles each header alone, twice over, with the
#   include paths of the target; a header that needs another one first does not build.

function(evener_collect_targets folder variable)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    evener_collect_targets(${subfolder} more)
    list(APPEND targets ${more})
  endforeach()
  set(${variable} ${targets} PARENT_SCOPE)
endfunction()

function(evener_write_link_lists file)
  evener_collect_targets(${PROJECT_SOURCE_DIR} targets)
  set(text "")
  foreach(target IN LISTS targets)
    get_target_property(folder ${target} SOURCE_DIR)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    set(all "")
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(links ${target} ${property})
      if(links)
        list(APPEND all ${links})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES all)
    string(APPEND text "${target}|${folder}|${all}\n")
  endforeach()
  file(WRITE ${file} "${text}")
endfunction()

function(evener_add_header_test target)
  set(sources "")
  foreach(header IN LISTS ARGN)
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
    set(text "#include \"${PROJECT_SOURCE_DIR}/${header}\"\n")
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}${text}")
    list(APPEND sources ${source})
  endforeach()
  add_library(headers_of_${target} OBJECT ${sources})
  target_compile_features(headers_of_${target} PRIVATE cxx_std_20)
  target_compile_options(headers_of_${target} PRIVATE -O0)
  get_target_property(type ${target} TYPE)
  set(prefix "")
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(prefix INTERFACE_)
  endif()
  # What the target itself is compiled with, its private libraries included.
  target_compile_options(headers_of_${target} PRIVATE
                         $<TARGET_PROPERTY:${target},${prefix}COMPILE_OPTIONS>)
  target_include_directories(headers_of_${target} PRIVATE
                             $<TARGET_PROPERTY:${target},${prefix}INCLUDE_DIRECTORIES>)
  target_compile_definitions(headers_of_${target} PRIVATE
                             $<TARGET_PROPERTY:${target},${prefix}COMPILE_DEFINITIONS>)
endfunction()
