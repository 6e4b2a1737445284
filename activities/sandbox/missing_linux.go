package sandbox

import (
	"os"
	"strings"
)

// missing says why level full does not work here, and the remedy, from what the host tells of
// itself; the failure of the trial stands for what it does not tell.
func missing(trial error, landlock int) []string {
	var list []string
	if !filters {
		list = append(list, "there is no system call filter for this processor architecture; run the worker on amd64 or arm64")
	}
	if landlock == 0 {
		list = append(list, "the kernel has no Landlock; use Linux 5.13 or newer with landlock in its lsm= boot parameter, and a container runtime whose seccomp profile lets landlock_create_ruleset through")
	}
	unprivileged := os.Geteuid() != 0
	switch {
	case setting("user/max_user_namespaces") == "0":
		list = append(list, "user namespaces are off (user.max_user_namespaces is 0); set sysctl user.max_user_namespaces=15000")
	case unprivileged && setting("kernel/unprivileged_userns_clone") == "0":
		list = append(list, "user namespaces are off for ordinary users; set sysctl kernel.unprivileged_userns_clone=1")
	case unprivileged && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		list = append(list, "AppArmor keeps ordinary users from user namespaces; give this program an AppArmor profile with the line userns, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0")
	case contained():
		list = append(list, "the container that the worker runs in refuses namespaces or mounts; give it a seccomp profile that allows clone, unshare, mount and pivot_root (docker run --security-opt seccomp=...), or run the worker outside of it")
	}
	if trial != nil {
		list = append(list, "a command at level full failed: "+trial.Error())
	}
	return list
}

// setting is a value of /proc/sys, or nothing.
func setting(name string) string {
	data, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// contained says whether this process seems to run in a container.
func contained() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
