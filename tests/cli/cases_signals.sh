# shellcheck shell=bash
# cases_signals.sh: files that change under the command's hands, signals, limits. run.sh reads it.

run generate f64:400x400x400x400 -o moving --no-sync >said/moving
run generate f64:3000x1x3000 -o long --no-sync >said/long
printf 'what was there before' >old.txt

# begin_second: writes more of the second factor than a pipe holds, and so waits until it is being read, when the first
# has been opened. end_second: writes the rest.
begin_second() { head -c 200000 moving/A2.npy >&8; }
end_second() { tail -c +200001 moving/A2.npy >&8; }

# moves NAME HOW...: HOW changes the first factor after it was opened, while the second, a pipe, is awaited.
moves() {
  local name=$1 status
  shift
  cp moving/A1.npy first.npy
  cp old.txt result.npy
  mkfifo pipe
  run multiply first.npy - moving/A3.npy -o result.npy <pipe >said/moves.stdout 2>said/moves.stderr &
  local command=$!
  exec 8>pipe
  begin_second
  "$@"
  end_second
  exec 8>&-
  wait $command
  status=$?
  rm pipe
  verdict "$name" "$([ $status = 2 ] || echo "exit status $status, expected 2")"
  holds "${name}_said" grep -q '^mmchain.*first.npy: changed while being read$' said/moves.stderr
  holds "${name}_old" cmp result.npy old.txt
  temporaries "${name}_temporary" .
}

touch_later() { touch -d '2001-01-01' first.npy; }
write_into() { printf '12345678' | dd of=first.npy bs=8 seek=5000 conv=notrunc status=none; }
if [ ${#wrapper[@]} = 0 ]; then # valgrind and the sanitizers have handlers of their own
  moves moved_cut truncate -s 4096 first.npy
  moves moved_emptied truncate -s 0 first.npy
fi
moves moved_written write_into
moves moved_touched touch_later

# Another file of that name is no change: the old one is read.
cp moving/A1.npy first.npy
mkfifo pipe
run multiply first.npy - moving/A3.npy -o result.npy <pipe 2>said/replaced &
replaced=$!
exec 8>pipe
begin_second
cp moving/A3.npy other.npy
mv other.npy first.npy
end_second
exec 8>&-
wait $replaced
verdict moved_replaced "$([ $? = 0 ] || cat said/replaced)"
rm pipe
run multiply moving/A1.npy moving/A2.npy moving/A3.npy -o expected.npy
holds moved_replaced_result cmp result.npy expected.npy

# A signal leaves no temporary file, also where it has had a name from the beginning. The signal goes
# off as soon as there is one; that the work was done before is no failure, but once it must hit.
if [ -n "${MMC_WITHOUT_UNNAMED:-}" ] && "$MMC_WITHOUT_UNNAMED" /bin/true && [ ${#wrapper[@]} = 0 ]; then
  for signal in INT TERM HUP; do
    hits=0
    for _ in {1..200}; do
      cp old.txt result.npy
      # A shell that is not interactive has SIGINT ignored by what it starts behind itself, and nohup SIGHUP.
      env --default-signal=INT,HUP "$MMC_WITHOUT_UNNAMED" "$mmchain" multiply long/A1.npy long/A2.npy -o result.npy 2>said/signal &
      command=$!
      while kill -0 $command 2>>said/kill && [ -z "$(compgen -G '.mmchain*')" ]; do :; done
      kill -$signal $command 2>>said/kill
      wait $command 2>>said/kill
      status=$?
      [ $status -le 128 ] || hits=$((hits + 1))
      [ $status = 0 ] || cmp -s result.npy old.txt || hits=-100
      [ $hits -lt 3 ] || break
    done
    verdict signal_hits_$signal "$([ $hits -gt 0 ] || echo "the signal hit $hits times")"
    temporaries signal_temporary_$signal .
  done
fi

# A file that may not grow so long is an error as a full disk is.
cp old.txt result.npy
(ulimit -f 100; run multiply long/A1.npy long/A2.npy -o result.npy >said/limit.stdout 2>said/limit.stderr)
verdict limit_status "$([ $? = 2 ] || echo "expected exit status 2")"
holds limit_said grep -q 'result.npy: cannot write: File too large$' said/limit.stderr
holds limit_old cmp result.npy old.txt
temporaries limit_temporary .
rm -r long moving
