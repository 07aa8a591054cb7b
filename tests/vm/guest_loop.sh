#!/bin/sh
# guest_loop.sh FOLDER: runs the commands of the channel, which is open as descriptor 3. The other end is channel.py. A
# request is a line "TOKEN SCRIPT", a reply is a line "TOKEN STATUS OUTPUT"; script and output are in base64. Each script
# is a process group of its own, whose number is in FOLDER/TOKEN.pid, so that the host can kill it. FOLDER/TOKEN.out has
# its output so far.
jobs=$1
mkdir -p "$jobs"

# run TOKEN: runs FOLDER/TOKEN.sh and sends the reply. The lock (a folder) keeps two replies apart.
run() {
  setsid /bin/sh -c 'echo $$ >"$0.pid"; exec /bin/sh "$0.sh"' "$jobs/$1" </dev/null >"$jobs/$1.out" 2>&1 3>&-
  status=$?
  rm -f "$jobs/$1.sh" "$jobs/$1.pid"  # before the reply: nobody sends a signal to what comes next with this number
  until mkdir "$jobs/lock" 2>/dev/null; do sleep 0.01; done
  {
    printf '%s %s ' "$1" "$status"
    base64 -w 0 <"$jobs/$1.out"
    echo
  } >&3
  rmdir "$jobs/lock"
  rm -f "$jobs/$1.out"
}

while :; do
  while read -r token script <&3; do
    echo "$script" | base64 -d >"$jobs/$token.sh"  # not in the background: the file shows that the script is here
    run "$token" &
  done
  sleep 0.05  # the end of the file means only that the host has not connected yet
done
