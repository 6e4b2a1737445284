package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"conclave/worker"
)

const chart = "helm/conclave"

func readValues(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(data, &values))
	return values
}

func TestHelm_workerConfiguration(t *testing.T) {
	t.Parallel()
	data, err := yaml.Marshal(readValues(t)["workerConfig"])
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	s, err := worker.LoadSettings(file)
	require.NoError(t, err)
	require.Contains(t, s.Teams, "default")
	require.Equal(t, "0.0.0.0:9464", s.MetricsAddress, "the probes ask this port")
}

// Every value that a template uses has a default.
func TestHelm_templatesUseDefinedValues(t *testing.T) {
	t.Parallel()
	values := readValues(t)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	require.NoError(t, err)
	used := regexp.MustCompile(`\.Values((?:\.\w+)+)`)
	count := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range used.FindAllStringSubmatch(string(data), -1) {
			var at any = values
			for _, key := range strings.Split(m[1][1:], ".") {
				level, ok := at.(map[string]any)
				require.True(t, ok, "%s: .Values%s", file, m[1])
				require.Contains(t, level, key, "%s: .Values%s", file, m[1])
				at = level[key]
			}
			count++
		}
	}
	require.Greater(t, count, 30)
}

// Helm itself lints the chart, and renders it with everything switched on.
func TestHelm_rendered(t *testing.T) {
	t.Parallel()
	helm, validator := checker(t, "HELM_BIN"), checker(t, "KUBECTL_VALIDATE_BIN")
	required := slices.Clip([]string{"--set", "temporal.address=temporal:7233", "--set", "bucket.name=sessions"})
	all := append(required, "--set", "temporal.tls=true,temporal.apiKeySecret.name=cloud,temporal.certificateSecret=mtls,temporal.authoritySecret=authority,bucket.endpoint=http://s3:9000,"+
		"bucket.credentialsSecret=s3,payloadKeySecret=payload,modelKeySecrets={models,mcp},autoscaling.enabled=true,worker.hostUsers=false,serve.enabled=true,serve.keysSecret=keys,serve.readOnly=true,worker.serviceAccount.annotations.role=x")
	for name, set := range map[string][]string{"required": required, "all": all} {
		said, err := exec.CommandContext(t.Context(), helm, append([]string{"lint", "--strict", chart}, set...)...).CombinedOutput()
		require.NoError(t, err, string(said))
		rendered, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "release", chart, "--kube-version", "1.31.0"}, set...)...).Output()
		require.NoError(t, err)
		kinds := map[string]int{}
		for _, document := range strings.Split(string(rendered), "\n---\n") {
			var object struct{ APIVersion, Kind string }
			require.NoError(t, yaml.Unmarshal([]byte(document), &object), document)
			kinds[object.Kind]++
		}
		deployments := map[string]int{"required": 1, "all": 2}[name] // serve is one of its own
		require.Equal(t, deployments, kinds["Deployment"], name)
		require.Equal(t, deployments, kinds["NetworkPolicy"], name)
		require.Equal(t, deployments-1, kinds["Service"], name)
		require.Equal(t, deployments-1, kinds["ScaledObject"], name)
		require.Equal(t, deployments-1, kinds["TriggerAuthentication"], name)
		require.NotContains(t, string(rendered), "<no value>", name)
		requireKnownToKubernetes(t, validator, string(rendered))
	}
	for missing, set := range map[string][]string{"bucket.name": nil, "serve.keysSecret": append(required, "--set", "serve.enabled=true")} {
		said, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "release", chart, "--kube-version", "1.31.0"}, set...)...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), missing+" is missing")
	}
}

// The authority of the server's certificate is optional, with and without a certificate of the client's.
// KEDA gets the credentials of the workers.
func TestHelm_credentials(t *testing.T) {
	t.Parallel()
	helm := checker(t, "HELM_BIN")
	const (
		client    = "TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/temporal/tls.crt"
		server    = "TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/temporal-authority/ca.crt"
		reference = "authenticationRef: {name: release-temporal}"
		key       = "{parameter: apiKey, name: cloud, key: api-key}"
		pair      = "{parameter: cert, name: mtls, key: tls.crt}"
		authority = "{parameter: ca, name: own, key: ca.crt}"
	)
	for _, tt := range []struct {
		set string
		has []string
	}{
		{"temporal.tls=true", nil},
		{"temporal.authoritySecret=own", []string{server}},
		{"temporal.apiKeySecret.name=cloud", []string{reference, key}},
		{"temporal.certificateSecret=mtls", []string{client, reference, pair}},
		{"temporal.certificateSecret=mtls,temporal.authoritySecret=own", []string{client, server, reference, pair, authority}},
	} {
		rendered, err := exec.CommandContext(t.Context(), helm, "template", "release", chart, "--kube-version", "1.31.0",
			"--set", "temporal.address=temporal:7233,bucket.name=sessions,autoscaling.enabled=true,"+tt.set).CombinedOutput()
		require.NoError(t, err, string(rendered))
		for _, part := range []string{client, server, reference, key, pair, authority} {
			require.Equal(t, slices.Contains(tt.has, part), strings.Contains(string(rendered), part), "%s: %s", tt.set, part)
		}
	}
}

// requireKnownToKubernetes validates objects against the schemas of Kubernetes. KEDA's are not among them.
func requireKnownToKubernetes(t *testing.T, program, rendered string) {
	t.Helper()
	objects := slices.DeleteFunc(strings.Split(rendered, "\n---\n"), func(object string) bool { return strings.Contains(object, "keda.sh/") })
	validate := func(objects string) (string, error) {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		require.NoError(t, os.WriteFile(file, []byte(objects), 0o600))
		said, err := exec.CommandContext(t.Context(), program, "--version", "1.30", file).CombinedOutput()
		return string(said), err
	}
	said, err := validate(strings.Join(objects, "\n---\n"))
	require.NoError(t, err, said)
	said, err = validate(strings.ReplaceAll(rendered, "readOnlyRootFilesystem", "readOnlyRoot"))
	require.Error(t, err)
	require.Contains(t, said, "readOnlyRoot", "it finds a field that does not exist")
}

// checker returns the program in a variable, which make charts sets.
func checker(t *testing.T, variable string) string {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skip(variable + " is not set: make charts runs this test")
	}
	return program
}

func TestSystemd_unit(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("systemd/conclave-worker.service")
	require.NoError(t, err)
	unit := string(data)
	for _, line := range []string{"DynamicUser=yes", "Delegate=yes", "NoNewPrivileges=yes", "TimeoutStopSec=30", "WantedBy=multi-user.target"} {
		require.Contains(t, unit, "\n"+line+"\n")
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	file := filepath.Join(t.TempDir(), "conclave-worker.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/local/bin/conclave-worker", "/bin/true")), 0o600))
	said, err := exec.CommandContext(t.Context(), verify, "verify", file).CombinedOutput()
	require.NoError(t, err, string(said))
}
