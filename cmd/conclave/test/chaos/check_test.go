//go:build e2e

package chaos

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

// doubled returns the actions of a session that were accepted twice, committed without being accepted, or
// accepted without a commit.
func (c *cluster) doubled(id string) (faults []string) {
	layout := artifact.InBucket(id)
	accepted, committed := map[string]int{}, map[string]int{}
	labels := map[string]int{}
	for key, err := range c.store.List(c.t.Context(), layout.Root()) {
		require.NoError(c.t, err)
		switch {
		case strings.HasPrefix(key, layout.File("ledger/")):
			e, err := artifact.ReadJSON[coordination.Accepted](c.t.Context(), c.store, key)
			require.NoError(c.t, err)
			accepted[fmt.Sprintf("%s %03d", e.Agent, e.Step)]++
			if e.Label != "" {
				labels[e.Label]++
			}
		case strings.HasSuffix(key, "/action.json") && strings.HasPrefix(key, layout.File("agents/")):
			agent, step, _ := strings.Cut(strings.TrimPrefix(key, layout.File("agents/")), "/")
			committed[agent+" "+strings.TrimSuffix(step, "/action.json")]++
		}
	}
	for action, n := range accepted {
		if n != 1 || committed[action] != 1 {
			faults = append(faults, fmt.Sprintf("%s: %s accepted %d times, committed %d times", id, action, n, committed[action]))
		}
	}
	for action := range committed {
		if accepted[action] == 0 {
			faults = append(faults, fmt.Sprintf("%s: %s committed and not accepted", id, action))
		}
	}
	for label, n := range labels {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("%s: label %s given %d times", id, label, n))
		}
	}
	return faults
}

// verifyAll copies the runs' files with `conclave pull --verify` and returns the complaints.
func (c *cluster) verifyAll(t *testing.T, runs []*run) (faults []string) {
	t.Helper()
	binary := os.Getenv("CONCLAVE_BIN")
	require.NotEmpty(t, binary, "CONCLAVE_BIN is not set: run make chaos")
	home := t.TempDir()
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TEMPORAL_ADDRESS=" + c.temporal.Address, "AWS_ENDPOINT_URL_S3=" + c.minio.Endpoints[1],
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=" + c.minio.AccessKey, "AWS_SECRET_ACCESS_KEY=" + c.minio.SecretKey,
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	free := make(chan struct{}, 4)
	for _, r := range runs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			cmd := exec.Command(binary, "pull", "--verify", "--automation", "--bucket", bucket, r.id, filepath.Join(home, r.id))
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, fmt.Sprintf("%s: %v: %s", r.id, err, out))
			}
		})
	}
	all.Wait()
	return faults
}

// evidence checks that a scenario's steps have one attempt's evidence each, as the model gave it.
func (c *cluster) evidence(id string) (faults []string) {
	layout := artifact.InScenario("look", id)
	result, err := artifact.ReadJSON[scenario.Run](c.t.Context(), c.store, layout.File("result.json"))
	require.NoError(c.t, err, id)
	for _, step := range result.Steps {
		for _, path := range step.EvidencePaths {
			data, err := c.store.Get(c.t.Context(), layout.File(path))
			if err != nil || string(data) != page {
				faults = append(faults, fmt.Sprintf("%s: evidence %s of step %s: %q, %v", id, path, step.ID, data, err))
			}
		}
		if len(step.EvidencePaths) != 1 {
			faults = append(faults, fmt.Sprintf("%s: step %s has evidence %q", id, step.ID, step.EvidencePaths))
		}
	}
	return faults
}

// of are the runs of one kind.
func of(runs []*run, kinds ...string) []*run {
	return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return !slices.Contains(kinds, r.kind) })
}

// counted is a table of counts, sorted by name.
func counted(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
