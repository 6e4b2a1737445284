package attack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processAttacks are further attacks on a process of the host that runs as the same user.
func processAttacks() []attack {
	return []attack{
		{
			name: "kill_host_thread", what: "kill a process of the host with tgkill", setup: setupVictim, proof: victimKilled, fatal: true,
			try: func(t target) (string, error) {
				return killVictim(t, func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGKILL) })
			},
		},
		{
			name: "kill_host_pidfd", what: "kill a process of the host with pidfd_send_signal", setup: setupVictim, proof: victimKilled, fatal: true,
			try: func(t target) (string, error) { return killVictim(t, killByPidfd) },
		},
		{
			name: "renice_host", what: "change the priority of a process of the host", setup: setupVictim, proof: reniced,
			try: func(t target) (string, error) { return provenUnless(unix.Setpriority(unix.PRIO_PROCESS, t.Victim, 15)) },
		},
		{
			name: "prlimit_host", what: "change the resource limits of a process of the host", setup: setupVictim, proof: limited,
			try: func(t target) (string, error) {
				return provenUnless(unix.Prlimit(t.Victim, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 4095}, nil))
			},
		},
		{
			name: "schedule_host", what: "change the scheduling policy of a process of the host", setup: setupVictim, proof: scheduledIdle,
			try: func(t target) (string, error) { return provenUnless(scheduleIdle(t.Victim)) },
		},
		{
			name: "affinity_host", what: "take processors away from a process of the host", setup: setupProcessors, proof: bound,
			try: func(t target) (string, error) {
				var one unix.CPUSet
				one.Set(int(t.Number))
				return provenUnless(unix.SchedSetaffinity(t.Victim, &one))
			},
		},
		{
			name: "oom_host", what: "make a process of the host the first to die when memory is short", setup: setupVictim, proof: sacrificed,
			try: func(t target) (string, error) { return provenUnless(writeProc(t.Victim, "oom_score_adj", "777")) },
		},
	}
}

// memoryAttacks are attacks on the memory of other processes.
func memoryAttacks() []attack {
	return []attack{
		{
			name: "readmem_host", what: "read the memory of a process of the host: process_vm_readv, /proc/PID/mem",
			setup: setupMemoryVictim, proof: secretStolen,
			try: func(t target) (string, error) {
				return either(
					func() (string, error) { return readRemote(t.Victim, t.Number) },
					func() (string, error) { return readMemory(target{Worker: t.Victim, WorkerAddress: t.Number}) })
			},
		},
		{
			name: "writemem_host", what: "write to the memory of a process of the host: process_vm_writev, /proc/PID/mem",
			setup: setupMemoryVictim, proof: victimKilled,
			try: func(t target) (string, error) { return provenUnless(writeMemory(t.Victim, t.Number)) },
		},
		{
			name: "sysv_shm", what: "read a System V shared memory segment of the host",
			setup: setupSegment, try: readSegment, proof: secretStolen,
		},
	}
}

func killByPidfd(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

func reniced(s *scene, _ trial) string {
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, s.target.Victim); err == nil && 20-p == 15 {
		return "the victim's nice value is 15"
	}
	return ""
}

func limited(s *scene, _ trial) string {
	var now unix.Rlimit
	if err := unix.Prlimit(s.target.Victim, unix.RLIMIT_CORE, nil, &now); err == nil && now.Max == 4095 {
		return "the victim has another limit of core files"
	}
	return ""
}

const schedIdle = 5 // SCHED_IDLE

func scheduleIdle(pid int) error {
	var priority int32
	if _, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), schedIdle, uintptr(unsafe.Pointer(&priority))); errno != 0 {
		return fmt.Errorf("sched_setscheduler: %w", errno)
	}
	return nil
}

func scheduledIdle(s *scene, _ trial) string {
	if policy, _, _ := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(s.target.Victim), 0, 0); policy == schedIdle {
		return "the victim runs only when nothing else does"
	}
	return ""
}

// setupProcessors starts a victim with more than one processor.
func setupProcessors(s *scene) error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		return skipAttack("there is only one processor")
	}
	for !all.IsSet(int(s.target.Number)) {
		s.target.Number++
	}
	return setupVictim(s)
}

func bound(s *scene, _ trial) string {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(s.target.Victim, &now); err == nil && now.Count() == 1 {
		return "the victim has one processor left"
	}
	return ""
}

func writeProc(pid int, name, text string) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func sacrificed(s *scene, _ trial) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.target.Victim))
	if err == nil && strings.TrimSpace(string(data)) == "777" {
		return "the victim has the score 777"
	}
	return ""
}

// setupMemoryVictim starts a victim with a secret in its memory, whose address the attacker gets.
func setupMemoryVictim(s *scene) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, ChildCommand, "victim")
	cmd.Env = []string{keyVariable + "=" + s.secret}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.startVictim(cmd); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start a victim: %w", err)
	}
	s.target.Number, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return err
}

// suffer is the victim: it prints the address of its secret, and ends when somebody changes the
// secret, or after two minutes.
func suffer([]string) error {
	key := []byte(os.Getenv(keyVariable))
	if len(key) == 0 {
		return fmt.Errorf("%s is not set", keyVariable)
	}
	original := bytes.Clone(key)
	fmt.Println(uint64(uintptr(unsafe.Pointer(&key[0]))))
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !bytes.Equal(key, original) {
			return errors.New("the memory of the victim was changed")
		}
	}
	return nil
}

func writeMemory(pid int, address int64) error {
	buf := []byte("X")
	local := []unix.Iovec{{Base: &buf[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: 1}}
	_, first := unix.ProcessVMWritev(pid, local, remote, 0)
	if first == nil {
		return nil
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(buf, address)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("process_vm_writev: %w; %w", first, err)
}

// setupSegment puts the secret into a shared memory segment with a random key.
func setupSegment(s *scene) error {
	key := int(time.Now().UnixNano()&0x3fffffff) | 1
	s.target.Number = int64(key)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return skipAttack("no shared memory segment can be made: %v", err)
	}
	s.onClear(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	data, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(data, s.secret)
	return unix.SysvShmDetach(data)
}

func readSegment(t target) (string, error) {
	id, err := unix.SysvShmGet(int(t.Number), 4096, 0)
	if err != nil {
		return "", fmt.Errorf("shmget: %w", err)
	}
	data, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", fmt.Errorf("shmat: %w", err)
	}
	return findSecrets(data)
}
