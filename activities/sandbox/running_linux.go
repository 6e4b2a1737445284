package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confinedRun is one child.
type confinedRun struct {
	s       *Sandbox
	cmd     *exec.Cmd
	control *os.File // closing it is the order to end
	status  *os.File
	cgroup  *cgroup // nil without
	copies  sync.WaitGroup
	pipes   files // our ends of the output
	theirs  files // the child's
	said    chan status
	ended   chan struct{}
	once    sync.Once
}

// connect makes the pipes of the output. They belong to the user behind the namespace, because
// programs open /dev/stdout and /dev/stderr by name.
func (r *confinedRun) connect(stdout, stderr stream) error {
	for _, to := range []stream{stdout, stderr} {
		ours, theirs, err := os.Pipe()
		if err != nil {
			return err
		}
		r.pipes, r.theirs = append(r.pipes, ours), append(r.theirs, theirs)
		if r.s.host.outer != os.Geteuid() {
			if err := theirs.Chown(r.s.host.outer, r.s.host.outer); err != nil {
				return fmt.Errorf("give the output to the sandbox's user: %w", err)
			}
		}
		r.copies.Go(func() {
			_, _ = io.Copy(to, ours) // ends with the pipe, or the limit, which the output knows
			ours.Close()
		})
	}
	r.cmd.Stdout, r.cmd.Stderr = r.theirs[0], r.theirs[1]
	return nil
}

// group puts the child into a cgroup of its own, if there are any.
func (r *confinedRun) group(sp *spec) error {
	if r.s.host.groups == nil {
		return nil
	}
	group, err := r.s.host.groups.create(r.s.options.Limits)
	if err != nil {
		return err
	}
	r.cgroup = group
	sp.Accounted = group.memory
	sp.Ask = sp.Ask && !group.processes
	r.cmd.SysProcAttr.UseCgroupFD = true
	r.cmd.SysProcAttr.CgroupFD = group.fd
	return nil
}

// abandon gives back what was made for a child that did not start.
func (r *confinedRun) abandon() error {
	r.theirs.close()
	r.pipes.close()
	r.copies.Wait()
	r.control.Close()
	r.status.Close()
	if r.cgroup != nil {
		return r.cgroup.remove()
	}
	return nil
}

func (r *confinedRun) begin(sp spec) {
	r.theirs.close()
	r.said = make(chan status, 1)
	r.ended = make(chan struct{})
	go func() {
		_ = json.NewEncoder(r.control).Encode(sp) // a child that died is noticed by its missing status
	}()
	go func() {
		defer r.status.Close()
		var st status
		if err := json.NewDecoder(r.status).Decode(&st); err != nil {
			close(r.said)
			return
		}
		r.said <- st
	}()
}

// killPatience is how long the child may take to kill what it has started before the worker does that.
const killPatience = 5 * time.Second

// kill ends everything. At level full the child's death does that; at level landlock the child has
// to do it, so it is only told, and never killed before what it has started.
func (r *confinedRun) kill() {
	r.once.Do(func() {
		if r.s.options.Level == Full {
			if r.cgroup != nil {
				r.cgroup.kill()
			}
			_ = r.cmd.Process.Kill() // it may have ended
			return
		}
		r.control.Close()
		go func() {
			for {
				select {
				case <-r.ended:
					return
				case <-time.After(killPatience):
				}
				if tasks, err := openTasks(); err == nil {
					tasks.self = r.cmd.Process.Pid
					if tasks.killAll() == 0 {
						_ = r.cmd.Process.Kill()
					}
					closeFD(tasks.proc)
				}
			}
		}()
	})
}

// wait returns when the child, which is the last to go, has ended.
func (r *confinedRun) wait() (ended, error) {
	err := r.cmd.Wait()
	close(r.ended)
	r.control.Close()
	st, ok := <-r.said
	r.drain()
	e := ended{Exit: Exit{Code: st.Code, Ended: st.Ended, CPU: st.CPU, MaxMemory: st.MaxMemory}}
	if st.Refused != 0 {
		e.Code = st.Refused
	}
	if st.Signal != 0 {
		e.Signal = unix.SignalName(syscall.Signal(st.Signal))
	}
	var groupErr error
	if r.cgroup != nil {
		groupErr = r.cgroup.account(&e.Exit)
	}
	switch {
	case st.Error != "":
		return e, errors.Join(fmt.Errorf("sandbox: %s", st.Error), groupErr)
	case !ok && e.Ended == "":
		return e, errors.Join(fmt.Errorf("the sandbox ended without a result: %w", errors.Join(err, errNoStatus)), groupErr)
	case !ok:
		e.Code, e.Signal = 128+int(syscall.SIGKILL), unix.SignalName(syscall.SIGKILL)
	}
	return e, groupErr
}

var errNoStatus = errors.New("it was killed or failed")

// drain reads what is left of the output. Nobody can hold the pipes any more, but if one did, the
// call would not hang on it.
func (r *confinedRun) drain() {
	done := make(chan struct{})
	go func() {
		r.copies.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(outputWait):
		r.pipes.close()
		<-done
	}
}
