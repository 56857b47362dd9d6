# Functions of the scripts that take DLPerf's arguments, to be sourced. Each ends the script with status 2 if an argument is wrong.

wrong_argument() {
  echo "$(basename "$0"): $1 expected" >&2
  exit 2
}

# check_numbers NAME...: the variables hold numbers from 1.
check_numbers() {
  local name
  for name in "$@"; do
    [[ ${!name} =~ ^[1-9][0-9]*$ ]] || wrong_argument "$name is '${!name}', a number from 1"
  done
}

# Sets `type`, the name of DLPerf's `dtype` in mxlite.
choose_type() {
  case $dtype in
    fp32) type=float32 ;;
    fp16) type=float16 ;;
    bf16) type=bfloat16 ;;
    *) wrong_argument "dtype '$dtype' given, fp32, fp16 or bf16" ;;
  esac
}

# Sets `per_node`, the processes of a node, and `launch`, the launcher's options, from `gpus` and `nodes`.
choose_processes() {
  [[ $gpus =~ ^[0-9]+(,[0-9]+)*$ ]] || wrong_argument "gpus is '$gpus', numbers with commas between such as 0,1,2"
  local commas=${gpus//[^,]/} hosts= node name
  per_node=$((${#commas} + 1))
  launch=(-np $((nodes * per_node)))
  [ "$nodes" -gt 1 ] || return 0
  for ((node = 1; node <= nodes; node++)); do
    name=NODE$node
    [ -n "${!name:-}" ] || wrong_argument "$name is not set, the address of node $node"
    hosts+=${hosts:+,}${!name}:$per_node
  done
  launch+=(-H "$hosts")
}

# run_grid COMMAND: calls COMMAND GPUS NODES RUN for each case of CASES, RUNS times, with PAUSE seconds after each.
run_grid() {
  local grid=${CASES:-1n1g 1n2g 1n4g 1n8g 2n8g 4n8g} case devices run RUNS=${RUNS:-5}
  for case in $grid; do
    [[ $case =~ ^[1-9][0-9]*n[1-9][0-9]*g$ ]] || wrong_argument "case '$case' in CASES, NnGg such as 1n8g"
  done
  check_numbers RUNS
  for run in $(seq "$RUNS"); do
    for case in $grid; do
      devices=${case#*n}
      "$1" "$(seq -s, 0 $((${devices%g} - 1)))" "${case%n*}" "$run"
      sleep "${PAUSE:-20}"
    done
  done
}
