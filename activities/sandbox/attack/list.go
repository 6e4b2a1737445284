//go:build linux

package attack

import "slices"

// list is every attack.
func list() []attack {
	return slices.Concat(
		onSecrets(), onFiles(), onMoreFiles(), onAttributes(), onNames(), onNetwork(), onSockets(), onProcesses(), onMemory(),
		onSupervisor(), bombs(), memoryBombs(), diskBombs(), unlinkedBombs(), leftovers(), onKernel(), onCalls(),
	)
}

func find(name string) (attack, bool) {
	all := list()
	i := slices.IndexFunc(all, func(a attack) bool { return a.name == name })
	if i < 0 {
		return attack{}, false
	}
	return all[i], true
}

// KnownAtLandlock are the names of the attacks that level landlock does not promise
// to stop.
func KnownAtLandlock() []string {
	var names []string
	for _, a := range list() {
		if a.known != "" {
			names = append(names, a.name)
		}
	}
	return names
}
