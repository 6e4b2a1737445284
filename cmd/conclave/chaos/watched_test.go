//go:build e2e

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silent matches panels that have no data unless something is lost, news arrives in a step, or a
// price is missing.
var silent = regexp.MustCompile(`sandbox|repaid|resumed|injected|stale|waiting|unpriced`)

// A real Prometheus scrapes a worker under load: every panel of the dashboard has data, and an alert fires once the
// worker is killed. It is skipped without the program prometheus.
func TestWatched(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus; Debian's package has it")
	}
	c := newCluster(t)
	metrics := freeAddress(t)
	here := func(address string) string { return address }
	w := c.newWorker(place{name: "watched", binary: os.Getenv("CONCLAVE_WORKER_BIN"), reach: here, storage: c.minio.Endpoints[0], settings: "metrics_address: " + metrics + "\n"})
	p := startPrometheus(t, program, metrics)
	runs := plannedRuns(20, 2, 2)
	c.startAll(runs, 10*time.Second)
	var without []string
	for _, expr := range panels(t) {
		if silent.MatchString(expr) {
			continue
		}
		if !assert.Eventually(t, func() bool { return p.query(t.Context(), expr) > 0 }, 90*time.Second, 500*time.Millisecond, expr) {
			without = append(without, expr)
		}
	}
	require.Empty(t, without, "panels without data")
	c.awaitAll(runs)
	require.Zero(t, p.query(t.Context(), `ALERTS{alertname="ConclaveWorkerDown", alertstate="firing"}`))
	w.kill()
	require.Eventually(t, func() bool {
		return p.query(t.Context(), `ALERTS{alertname="ConclaveWorkerDown", alertstate="firing"}`) == 1
	}, time.Minute, 500*time.Millisecond, "the alert does not fire")
}

// prometheus is a server at an address.
type prometheus struct{ address string }

// startPrometheus scrapes a target each second. Alerts fire at once.
func startPrometheus(t *testing.T, program, target string) prometheus {
	t.Helper()
	dir, p := t.TempDir(), prometheus{address: freeAddress(t)}
	rules, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	rules = regexp.MustCompile(`for: \w+`).ReplaceAll(rules, []byte("for: 0s"))
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yaml]\nscrape_configs:\n  - job_name: conclave\n    static_configs: [{targets: [%q]}]\n", target)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), rules, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return p.query(t.Context(), "up == 1") == 1 }, time.Minute, 100*time.Millisecond, "prometheus does not scrape the worker")
	return p
}

// query returns the number of series of an expression, 0 if it cannot be asked.
func (p prometheus) query(ctx context.Context, expr string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var reply struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return 0
	}
	return len(reply.Data.Result)
}

// panels are the expressions of the dashboard's panels.
func panels(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/grafana/conclave.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(data, &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	require.Greater(t, len(all), 10)
	return all
}
