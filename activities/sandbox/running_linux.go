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

// confinedRun is the worker's side of a running child.
type confinedRun struct {
	s       *Sandbox
	cmd     *exec.Cmd
	control *os.File // closing it tells the child to end
	status  *os.File
	cgroup  *cgroup  // nil if not used
	network *passage // nil if not used
	copies  sync.WaitGroup
	reads   []*os.File // the worker's ends of the output pipes
	writes  []*os.File // the child's ends of the output pipes
	ended   chan struct{}
	once    sync.Once
}

// launch prepares the mounts, the output and the cgroup of the child, and starts it.
func (r *confinedRun) launch(sp *spec, stdout, stderr stream) error {
	for _, at := range sp.Trees {
		tree, err := r.s.tree(at)
		if err != nil {
			return err
		}
		r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, tree)
	}
	if sp.Network {
		passage, err := openPassage()
		if err != nil {
			return err
		}
		r.network = passage
		r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, passage.theirs)
	}
	if err := r.connect(stdout, stderr); err != nil {
		return err
	}
	if err := r.group(sp); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start the sandbox: %w", err)
	}
	return nil
}

// connect creates the output pipes. The sandbox's user owns them, so that commands can open
// /dev/stdout.
func (r *confinedRun) connect(stdout, stderr stream) error {
	for _, to := range []stream{stdout, stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		r.reads, r.writes = append(r.reads, read), append(r.writes, write)
		if r.s.host.outer != os.Geteuid() {
			if err := write.Chown(r.s.host.outer, r.s.host.outer); err != nil {
				return fmt.Errorf("give the output to the sandbox's user: %w", err)
			}
		}
		r.copies.Go(func() {
			_, _ = io.Copy(to, read) // ends with the pipe, or at the limit, which output records
			read.Close()
		})
	}
	r.cmd.Stdout, r.cmd.Stderr = r.writes[0], r.writes[1]
	return nil
}

// group creates a cgroup for the child if the host has a delegated one.
func (r *confinedRun) group(sp *spec) error {
	if r.s.options.Host.Cgroup == "" {
		return nil
	}
	group, err := newCgroup(r.s.options.Host.Cgroup, sp.Limits)
	if err != nil {
		return err
	}
	r.cgroup = group
	sp.Accounted = group.memory
	sp.AskThreads = sp.AskThreads && !group.processes
	r.cmd.SysProcAttr.UseCgroupFD = true
	r.cmd.SysProcAttr.CgroupFD = group.fd
	return nil
}

// abandon releases the resources of a child that did not start.
func (r *confinedRun) abandon() error {
	closeFiles(r.writes)
	closeFiles(r.reads)
	r.copies.Wait()
	r.control.Close()
	r.status.Close()
	if r.network != nil {
		r.network.close(false)
	}
	if r.cgroup != nil {
		return r.cgroup.remove()
	}
	return nil
}

func (r *confinedRun) send(sp spec) {
	closeFiles(r.writes)
	r.ended = make(chan struct{})
	if r.network != nil {
		go r.network.serve(r.s.options.Network)
	}
	go func() {
		_ = json.NewEncoder(r.control).Encode(sp) // if the child has died, its status is missing
	}()
}

// killTimeout is how long the worker waits for the child to kill its processes before killing them
// itself.
const killTimeout = 5 * time.Second

// kill ends all processes. At level landlock it asks the child to kill them, and the child ends
// last.
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
		go r.enforceKill()
	})
}

// enforceKill kills the processes and then the child if the child is still running after
// killTimeout.
func (r *confinedRun) enforceKill() {
	for {
		select {
		case <-r.ended:
			return
		case <-time.After(killTimeout):
		}
		if tasks, err := openTasks(); err == nil {
			tasks.self = r.cmd.Process.Pid
			if tasks.killAll() == 0 {
				_ = r.cmd.Process.Kill()
			}
			closeFD(tasks.proc)
		}
	}
}

// wait waits for the child, which ends after all its processes.
func (r *confinedRun) wait() (Exit, error) {
	err := r.cmd.Wait()
	close(r.ended)
	r.control.Close()
	if r.network != nil {
		r.network.close(true)
	}
	var st status
	ok := json.NewDecoder(r.status).Decode(&st) == nil
	r.status.Close()
	r.drain()
	e := st.Exit
	var groupErr error
	if r.cgroup != nil {
		groupErr = r.cgroup.account(&e)
	}
	switch {
	case st.Error != "":
		return e, errors.Join(fmt.Errorf("sandbox: %s", st.Error), groupErr)
	case !ok && e.Ended == "":
		return e, errors.Join(errors.New("the sandbox was killed or failed without a result"), err, groupErr)
	case !ok:
		e.Code, e.Signal = 128+int(syscall.SIGKILL), unix.SignalName(syscall.SIGKILL)
	}
	return e, groupErr
}

// drain reads the rest of the output. Its time is bounded, because a process may still hold a pipe
// open.
func (r *confinedRun) drain() {
	done := make(chan struct{})
	go func() {
		r.copies.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(outputWait):
		closeFiles(r.reads)
		<-done
	}
}
