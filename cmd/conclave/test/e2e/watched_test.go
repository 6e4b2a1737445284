//go:build e2e

package e2e

import (
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

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// Prometheus scrapes a worker under load. Every panel of the dashboard and every alert has data, and an alert fires
// once the worker is killed. The test is skipped without the program prometheus.
func TestWatched(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus; Debian's package has it")
	}
	s := newSite(t)
	metrics := freeAddress(t)
	w := newClusterWorker(t, s, newModelServer(t, nil), "metrics_address: "+metrics+"\n")
	w.args = append(w.args, "--offline")
	require.Equal(t, 0, w.cli.conclave("scenario", "create", "shop", "buy", "--step", "Open: Open the shop.").code)
	worker := w.start()
	p := startPrometheus(t, program, metrics)
	w.load(s, 0)
	for i, expr := range append(panels(t), conditions(t)...) {
		require.Eventually(t, func() bool {
			if p.query(expr) > 0 {
				return true
			}
			w.load(s, i+1)
			return false
		}, time.Minute, 500*time.Millisecond, "no data: %s", expr)
	}
	const firing = `ALERTS{alertname="ConclaveWorkerDown", alertstate="firing"}`
	require.Zero(t, p.query(firing))
	require.NoError(t, worker.Process.Kill())
	require.Eventually(t, func() bool { return p.query(firing) == 1 }, time.Minute, 500*time.Millisecond, "the alert does not fire")
}

// load runs a session, a pipeline and a scenario.
func (w clusterWorker) load(s *site, n int) {
	w.cli.t.Helper()
	run := s.start(fmt.Sprintf("session-%d-%d", n, time.Now().UnixNano()))
	for _, command := range [][]string{{"pipeline", "run", example(w.cli.t, "decide.yaml"), "Tabs or spaces?"}, {"scenario", "run", "shop", "buy"}} {
		out := w.conclave(append(command, "--offline", "--bucket", s.stack.Bucket)...)
		require.Equal(w.cli.t, 0, out.code, out.stderr)
	}
	ended(w.cli.t, run, "consensus")
}

// prometheus is a server at an address.
type prometheus struct{ address string }

// startPrometheus scrapes a target each second. Alerts fire at once.
func startPrometheus(t *testing.T, program, target string) prometheus {
	t.Helper()
	dir, p := t.TempDir(), prometheus{address: freeAddress(t)}
	rules, err := os.ReadFile("../../../../deploy/helm/conclave/alerts.yaml")
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
	require.Eventually(t, func() bool { return p.query("up == 1") == 1 }, time.Minute, 100*time.Millisecond, "prometheus does not scrape the worker")
	return p
}

// query returns the number of series of an expression that have a number now, 0 if it cannot be asked.
func (p prometheus) query(expr string) (n int) {
	res, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var reply struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return 0
	}
	for _, series := range reply.Data.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n
}

// panels are the expressions of the dashboard's panels.
func panels(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile("../../../../deploy/grafana/conclave.json")
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
	require.Greater(t, len(all), 20)
	return all
}

// faultless matches the alerts that have no data until there is a fault: a run that cannot be replayed, or a worker
// that confines less.
var faultless = regexp.MustCompile(`execution_failed|absent|landlock`)

// conditions are the expressions of the alerts without the limits to which they are compared.
func conditions(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile("../../../../deploy/helm/conclave/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	for _, rule := range file.Groups[0].Rules {
		if !faultless.MatchString(rule.Expr) {
			all = append(all, regexp.MustCompile(`\s(>|==) [\d.]+\s*$`).ReplaceAllString(rule.Expr, ""))
		}
	}
	require.Len(t, all, 7)
	return all
}
