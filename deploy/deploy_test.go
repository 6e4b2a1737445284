// Package deploy_test checks the files of this directory without a container engine:
// the files that they name exist and, with the build tag e2e, the image's build line
// builds, and the worker accepts their command line.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/worker"
)

// pinned matches an image with the tag of a version.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:(v?\d+\.\d+[\w.-]*|RELEASE\.[\dTZ-]+)$`)

func TestCompose_namesExistingFilesAndServices(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		if s.Build == nil {
			require.Regexp(t, pinned, s.Image, name)
		} else {
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile), name)
		}
		for other, d := range s.DependsOn {
			require.Contains(t, c.Services, other, name)
			if d.Condition == "service_healthy" {
				require.NotNil(t, c.Services[other].Healthcheck, "%s waits for the health of %s", name, other)
			}
		}
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s listens on this machine only", name, port)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				_, err := os.Stat(source)
				require.NoError(t, err, name)
			} else {
				require.Contains(t, c.Volumes, source, name)
			}
		}
	}
}

func TestCompose_defaultsAreConsistent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	defaults := map[string]string{}
	for _, m := range regexp.MustCompile(`\$\{(\w+):-([^}]*)\}`).FindAllStringSubmatch(string(text), -1) {
		if known, ok := defaults[m[1]]; ok {
			require.Equal(t, known, m[2], m[1])
		}
		defaults[m[1]] = m[2]
	}
	require.GreaterOrEqual(t, len(defaults["S3_SECRET_KEY"]), 8, "MinIO takes no shorter password")
	require.Empty(t, defaults["OPENAI_API_KEY"])
}

func TestCompose_workersFindTheirCluster(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	w := c.Services["worker"]
	require.Equal(t, 2, w.Deploy.Replicas)
	require.Equal(t, c.Services["ui"].Environment["TEMPORAL_ADDRESS"], w.Environment["TEMPORAL_ADDRESS"])
	require.True(t, strings.HasSuffix(c.Services["bucket"].Command[0], " mb --ignore-existing s3/"+after(t, w.Command, "--bucket")))
	require.Contains(t, c.Services["bucket"].Command[0], w.Environment["AWS_ENDPOINT_URL_S3"])
	require.Equal(t, c.Services["s3"].Environment["MINIO_ROOT_USER"], w.Environment["AWS_ACCESS_KEY_ID"])
	require.Equal(t, c.Services["s3"].Environment["MINIO_ROOT_PASSWORD"], w.Environment["AWS_SECRET_ACCESS_KEY"])
}

// A worker that is stopped has the time to hand its steps over: it is out within 20 seconds.
func TestGracePeriods(t *testing.T) {
	t.Parallel()
	const out = 20 * time.Second
	compose, err := time.ParseDuration(readCompose(t).Services["worker"].StopGrace)
	require.NoError(t, err)
	require.Greater(t, compose, out)
	pod, ok := readValues(t)["worker"].(map[string]any)["terminationGracePeriodSeconds"].(int)
	require.True(t, ok)
	require.Greater(t, time.Duration(pod)*time.Second, out)
}

func TestWorkerConfiguration(t *testing.T) {
	t.Parallel()
	s, err := worker.LoadSettings("worker.yaml")
	require.NoError(t, err)
	require.Contains(t, s.Teams, activities.DefaultTeam)
	require.Contains(t, s.Teams, "trial", "the README mentions it")
	environment := readCompose(t).Services["worker"].Environment
	for name, p := range s.Providers {
		if p.APIKeyEnv != "" {
			require.Contains(t, environment, p.APIKeyEnv, "the key of %s reaches the workers", name)
		}
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	d := readDockerfile(t)
	require.Equal(t, []string{"golang:" + goVersion(t) + " AS build", "build AS build-serve", "scratch AS serve", "scratch"}, d.all("FROM"),
		"the compiler of go.mod, and nothing; the worker's image is the last")
	require.Equal(t, []string{"65532:65532", "65532:65532"}, d.all("USER"))
	require.Equal(t, []string{`["/conclave"]`, `["/conclave-worker"]`}, d.all("ENTRYPOINT"))
	require.Contains(t, d.all("COPY"), "--from=build /out/ /")
	require.Contains(t, d.all("COPY"), "--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/")
}

func TestHadolint(t *testing.T) {
	t.Parallel()
	program := checker(t, "HADOLINT_BIN")
	said, err := exec.CommandContext(t.Context(), program, "Dockerfile").CombinedOutput()
	require.NoError(t, err, string(said))
	unpinned := filepath.Join(t.TempDir(), "Dockerfile")
	require.NoError(t, os.WriteFile(unpinned, []byte("FROM golang\n"), 0o600))
	said, err = exec.CommandContext(t.Context(), program, unpinned).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "DL3006", "it finds an image without a tag")
}
