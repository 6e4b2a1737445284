package attack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

// supervisorAttacks are further attacks on the processes that end a command, and by processes that
// outlive it.
func supervisorAttacks() []attack {
	return []attack{
		{
			name: "freeze_supervisor", what: "stop the worker and the attacker's parent with SIGSTOP, so that no limit is watched any more",
			limits: shortTime, proof: workerHarmed, fatal: true,
			try: func(t target) (string, error) {
				_, err := signalSupervisor(t, unix.SIGSTOP)
				time.Sleep(5 * time.Second) // beyond the limit
				return "", err
			},
		},
		{
			name: "daemon_hold", what: "leave a daemon behind that holds the command's output open, so that the worker waits for ever",
			try: func(t target) (string, error) {
				cmd, err := daemonCommand("beat", t.Token)
				if err != nil {
					return "", err
				}
				cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
				err = cmd.Start()
				time.Sleep(300 * time.Millisecond)
				return provenUnless(err)
			},
			proof: func(s *scene, t trial) string {
				if t.Took > 5*time.Second {
					return fmt.Sprintf("the command took %v", t.Took.Round(time.Second))
				}
				return livesOn(s, t)
			},
		},
		{
			name: "daemon_hop", what: "leave a daemon behind that starts its successor and ends, over and over, so that no list of processes has it",
			proof: livesOn,
			try: func(t target) (string, error) {
				_, err := startDaemon("hop", t.Token, "500")
				time.Sleep(500 * time.Millisecond)
				return provenUnless(err)
			},
		},
		{
			name: "daemon_asleep", what: "leave a process behind that is stopped", proof: livesOn,
			try: func(t target) (string, error) {
				cmd, err := startDaemon("beat", t.Token)
				if err == nil {
					time.Sleep(200 * time.Millisecond)
					err = cmd.Process.Signal(unix.SIGSTOP)
				}
				return provenUnless(err)
			},
		},
		{
			name: "ignore_signals", what: "ignore every signal that can be ignored, and go on beyond the time limit",
			limits: shortTime, proof: workerHarmed, fatal: true,
			try: func(target) (string, error) {
				ignoreSignals()
				time.Sleep(10 * time.Second)
				return "it ran for 10 seconds", nil
			},
		},
	}
}

func shortTime(l *sandbox.Limits) { l.Time = 2 * time.Second }

// hop is a daemon that writes once, starts its successor and ends.
func hop(args []string) error {
	if len(args) != 2 {
		return errors.New("a hopping daemon needs a token and its number of hops")
	}
	left, err := strconv.Atoi(args[1])
	if err != nil || left == 0 {
		return err
	}
	if err := writeLine(beatFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND); err != nil {
		return err
	}
	_, err = startDaemon("hop", args[0], strconv.Itoa(left-1))
	return err
}
