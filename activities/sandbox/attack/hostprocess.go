//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onProcesses are attacks on a process of the host that has nothing to do with
// the sandbox, and runs as the same user.
func onProcesses() []attack {
	return []attack{
		{
			name: "kill_host", what: "kill a process of the host: kill, tgkill, pidfd_send_signal", plant: plantVictim,
			try:    func(t target) (string, error) { return done(killEveryWay(t.Victim)) },
			worked: killed, fatal: true,
		},
		{name: "ptrace_host", what: "attach to a process of the host as its debugger, and kill it so", plant: plantVictim, try: attach, worked: killed},
		{
			name: "renice_host", what: "change the priority of a process of the host", plant: plantVictim,
			try: func(t target) (string, error) { return done(unix.Setpriority(unix.PRIO_PROCESS, t.Victim, 15)) },
			worked: func(s *scene, _ trial) string {
				if p, err := unix.Getpriority(unix.PRIO_PROCESS, s.target.Victim); err == nil && 20-p == 15 {
					return "the victim's nice value is 15"
				}
				return ""
			},
		},
		{
			name: "prlimit_host", what: "change the resource limits of a process of the host", plant: plantVictim,
			try: func(t target) (string, error) {
				return done(unix.Prlimit(t.Victim, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 4095}, nil))
			},
			worked: func(s *scene, _ trial) string {
				var now unix.Rlimit
				if err := unix.Prlimit(s.target.Victim, unix.RLIMIT_CORE, nil, &now); err == nil && now.Max == 4095 {
					return "the victim has another limit of core files"
				}
				return ""
			},
		},
		{
			name: "schedule_host", what: "change the scheduling policy of a process of the host", plant: plantVictim,
			try: func(t target) (string, error) { return done(setIdle(t.Victim)) },
			worked: func(s *scene, _ trial) string {
				if policy, _, _ := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(s.target.Victim), 0, 0); policy == schedIdle {
					return "the victim runs only when nothing else does"
				}
				return ""
			},
		},
		{
			name: "affinity_host", what: "take processors away from a process of the host", plant: plantProcessors,
			try: func(t target) (string, error) {
				var one unix.CPUSet
				one.Set(t.Number)
				return done(unix.SchedSetaffinity(t.Victim, &one))
			},
			worked: func(s *scene, _ trial) string {
				var now unix.CPUSet
				if err := unix.SchedGetaffinity(s.target.Victim, &now); err == nil && now.Count() == 1 {
					return "the victim has one processor left"
				}
				return ""
			},
		},
		{
			name: "oom_host", what: "make a process of the host the first to die when memory is short", plant: plantVictim,
			try: func(t target) (string, error) { return done(writeProc(t.Victim, "oom_score_adj", "777")) },
			worked: func(s *scene, _ trial) string {
				if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.target.Victim)); err == nil && strings.TrimSpace(string(data)) == "777" {
					return "the victim has the score 777"
				}
				return ""
			},
		},
	}
}

// onMemory are attacks on the memory of other processes.
func onMemory() []attack {
	return []attack{
		{
			name: "readmem_host", what: "read the memory of a process of the host: process_vm_readv, /proc/PID/mem", plant: plantVictim,
			try:    func(t target) (string, error) { return readMemory(t.Victim, t.VictimAddress) },
			worked: stolen,
		},
		{
			name: "writemem_host", what: "write to the memory of a process of the host: process_vm_writev, /proc/PID/mem", plant: plantVictim,
			try:    func(t target) (string, error) { return done(writeMemory(t.Victim, t.VictimAddress)) },
			worked: killed,
		},
		{
			name: "supervisor_mem", what: "read the worker's memory: process_vm_readv, /proc/PID/mem",
			try:    func(t target) (string, error) { return readMemory(t.Worker, t.WorkerAddress) },
			worked: stolen,
		},
		{name: "sysv_shm", what: "read a System V shared memory segment of the host", plant: plantSegment, try: readSegment, worked: stolen},
	}
}

// killEveryWay sends SIGKILL to exactly one process.
func killEveryWay(pid int) error {
	if pid == os.Getpid() || pid <= 1 {
		return errors.New("the number is taken inside")
	}
	err := unix.Kill(pid, unix.SIGKILL)
	if err == nil {
		return nil
	}
	second := unix.Tgkill(pid, pid, unix.SIGKILL)
	if second == nil {
		return nil
	}
	fd, third := unix.PidfdOpen(pid, 0)
	if third == nil {
		third = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	if third == nil {
		return nil
	}
	return fmt.Errorf("kill: %w; tgkill: %w; pidfd: %w", err, second, third)
}

// attach becomes the debugger of a process that dies with its debugger.
func attach(t target) (string, error) {
	const seize, exitKill = 0x4206, 0x100000 // PTRACE_SEIZE, PTRACE_O_EXITKILL
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, seize, uintptr(t.Victim), 0, exitKill, 0, 0); errno != 0 {
		return "", fmt.Errorf("ptrace: %w", errno)
	}
	return done(nil)
}

const schedIdle = 5 // SCHED_IDLE

func setIdle(pid int) error {
	var priority int32
	if _, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), schedIdle, uintptr(unsafe.Pointer(&priority))); errno != 0 {
		return fmt.Errorf("sched_setscheduler: %w", errno)
	}
	return nil
}

// plantProcessors is a victim that has more than one processor.
func plantProcessors(s *scene) error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		return skip("there is only one processor")
	}
	for !all.IsSet(s.target.Number) {
		s.target.Number++
	}
	return plantVictim(s)
}

func writeProc(pid int, name, text string) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

const secretLen = len("sk-attack-") + 32

func readMemory(pid int, address uint64) (string, error) {
	buf := make([]byte, secretLen)
	return either(
		func() (string, error) {
			local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
			remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(buf)}}
			if _, err := unix.ProcessVMReadv(pid, local, remote, 0); err != nil {
				return "", fmt.Errorf("process_vm_readv: %w", err)
			}
			return loot(buf)
		},
		func() (string, error) {
			f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
			if err != nil {
				return "", err
			}
			defer f.Close()
			if _, err := f.ReadAt(buf, int64(address)); err != nil {
				return "", err
			}
			return loot(buf)
		},
	)
}

func writeMemory(pid int, address uint64) error {
	buf := []byte("X")
	local := []unix.Iovec{{Base: &buf[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: 1}}
	_, first := unix.ProcessVMWritev(pid, local, remote, 0)
	if first == nil {
		return nil
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(buf, int64(address))
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("process_vm_writev: %w; %w", first, err)
}

// plantSegment puts the secret into a shared memory segment with a key of chance.
func plantSegment(s *scene) error {
	s.target.Number = int(time.Now().UnixNano()&0x3fffffff) | 1
	id, err := unix.SysvShmGet(s.target.Number, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return skip("no shared memory segment can be made: %v", err)
	}
	s.later(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	data, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(data, s.secret)
	return unix.SysvShmDetach(data)
}

func readSegment(t target) (string, error) {
	id, err := unix.SysvShmGet(t.Number, 4096, 0)
	if err != nil {
		return "", fmt.Errorf("shmget: %w", err)
	}
	data, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", fmt.Errorf("shmat: %w", err)
	}
	return loot(data)
}
