# Keeps the processes of one test server. $0 is the server's directory.
#
# Standard input is a pipe whose other end only the test process holds. Each line names a start script in the directory;
# the answer is the process id. When the pipe closes, because the test process closed it or ended in whatever way, all
# processes are killed and the directory is removed.
processes=
end() {
    trap '' HUP INT TERM
    [ -z "$processes" ] || kill -9 $processes 2>/dev/null
    wait
    rm -rf -- "$0"
}
trap end EXIT
trap 'exit 1' HUP INT TERM
trap '' PIPE
while read -r name; do
    sh "$0/$name.sh" </dev/null >"$0/$name.log" 2>&1 &
    processes="$processes $!"
    echo "$!"
done
