package text

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	hexa    = digits + "abcdef"
	alnum   = digits + lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// noise returns n characters that look random. They are the same in each run, and no scanner finds
// them in this file.
func noise(alphabet string, n int) string {
	random := rand.New(rand.NewPCG(uint64(n), uint64(len(alphabet))))
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	return b.String()
}

// file is a file of a person's directory.
type file struct{ name, content string }

// private is the text of a private key.
func private(kind, newline string) string {
	lines := []string{"-----BEGIN " + kind + "PRIVATE KEY-----", noise(alnum, 64), noise(alnum, 63) + "=", "-----END " + kind + "PRIVATE KEY-----", ""}
	return strings.Join(lines, newline)
}

// jwt returns a signed token.
func jwt() string {
	return "eyJ" + noise(alnum, 33) + ".eyJ" + noise(alnum, 60) + "." + noise(alnum, 43)
}

// jwtIO returns a token of the documentation of JSON web tokens.
func jwtIO() string {
	return "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0." + noise(alnum, 43)
}

// The kinds of files with which a person would hand over credentials, and each of the forms that
// common tools write.
//
//nolint:funlen // one table
func TestSecretFile_kinds(t *testing.T) {
	t.Parallel()
	password, forty := noise(alnum, 14), noise(alnum, 40)
	service := `{"type": "service_account", "private_key_id": "` + noise(hexa, 40) + `", "private_key": "` + private("", `\n`) + `"}`
	var sent []string
	for kind, f := range map[string]file{
		"environment":                {".env", "A=1"},
		"of a stage":                 {"web/.env.production", "A=1"},
		"named":                      {"prod.env", "DB_PASSWORD=" + password},
		"named, deeper":              {"config/prod.env", "DB_PASSWORD=" + password},
		"named, of short values":     {"deploy/staging.env", "API_KEY=k1"},
		"direnv":                     {".envrc", "export API_KEY=" + password},
		"service account":            {"gcp.json", service},
		"service account in an env":  {"values.txt", `KEY="` + strings.ReplaceAll(strings.ReplaceAll(service, `\`, `\\`), `"`, `\"`) + `"`},
		"application default":        {".config/gcloud/application_default_credentials.json", `{"refresh_token": "1//x"}`},
		"docker":                     {".docker/config.json", `{"auths": {"ghcr.io": {"auth": "dTpw"}}}`},
		"docker's token":             {"registry/config.json", `{"auths": {"ghcr.io": {"auth": "` + noise(alnum, 30) + `=="}}}`},
		"dockercfg":                  {".dockercfg", `{}`},
		"kube":                       {".kube/config", "apiVersion: v1\n"},
		"kubeconfig":                 {"kubeconfig", "apiVersion: v1\n"},
		"kubeconfig of a stage":      {"kubeconfig.prod.yaml", "apiVersion: v1\n"},
		"kubeconfig, other name":     {"admin.conf", "users:\n- user:\n    client-key-data: " + noise(alnum, 200) + "\n"},
		"kubeconfig with a token":    {"ci.yaml", "kind: Config\nusers:\n- name: ci\n  user:\n    token: " + noise(alnum, 40) + "\n"},
		"npm":                        {".npmrc", "//npm.example.com/:_authToken=" + noise(hexa, 8) + "-" + noise(hexa, 12)},
		"npm's token":                {".npmrc", "//registry.npmjs.org/:_authToken=npm_" + noise(alnum, 36)},
		"npm, basic":                 {".npmrc", "_auth=" + noise(alnum, 22) + "=="},
		"npm, password":              {"web/.npmrc", "//npm.example.com/:_password=" + noise(alnum, 12)},
		"yarn":                       {".yarnrc.yml", "npmAuthToken: " + password},
		"yarn, quoted":               {".yarnrc.yml", "npmScopes:\n  a:\n    npmAuthToken: \"" + password + "\"\n"},
		"terraform's settings":       {".terraformrc", `credentials "app.terraform.io" {}`},
		"terraform's login":          {".terraform.d/credentials.tfrc.json", `{}`},
		"terraform's state":          {"infra/terraform.tfstate", `{"version": 4}`},
		"terraform's earlier state":  {"terraform.tfstate.backup", `{"version": 4}`},
		"terraform's variables":      {"prod.tfvars", `db_password = "` + password + `"`},
		"vault":                      {".vault-token", "hvs.x"},
		"secrets":                    {"secrets.yaml", "db_password: " + password + "\n"},
		"secrets, quoted":            {"config/secrets.yml", `api: {"token": "` + password + `"}`},
		"secrets in JSON":            {"secrets.json", `{"stripe": "` + password + `"}`},
		"secrets in TOML":            {".streamlit/secrets.toml", `key = "` + password + `"`},
		"secret of Kubernetes":       {"app.yaml", "apiVersion: v1\nkind: Secret\ndata:\n  password: " + noise(alnum, 16) + "\n"},
		"its plain text":             {"app.yaml", "kind: Secret\nmetadata:\n  name: db\nstringData:\n  password: " + password + "\n"},
		"WordPress":                  {"wp-config.php", "<?php\ndefine( 'DB_PASSWORD', '" + password + "' );"},
		"AWS in an INI":              {"aws.ini", "[default]\naws_secret_access_key = " + forty},
		"AWS's file":                 {".aws/credentials", "[default]\n"},
		"AWS in code":                {"s3.py", `boto3.client("s3", aws_secret_access_key="` + forty + `")`},
		"AWS in JSON":                {"out.json", `{"SecretAccessKey": "` + forty + `"}`},
		"AWS's id":                   {"main.tf", `access_key = "AKIA` + noise(capital, 16) + `"`},
		"Postgres":                   {"settings.py", `DB = "postgres://u:` + password + `@h/app"`},
		"Postgres, local":            {"settings.py", `DB = "postgresql+asyncpg://u:` + password + `@localhost:5432/app"`},
		"MySQL":                      {"app.yaml", "url: mysql://root:" + password + "@db.internal:3306/app"},
		"MongoDB":                    {"app.js", "connect('mongodb+srv://app:" + password + "@c0.abcde.mongodb.net/?w=majority')"},
		"Redis without a user":       {"app.rb", "Redis.new(url: 'redis://:" + password + "@cache:6379/0')"},
		"AMQP":                       {"celery.py", "broker = 'amqps://app:" + password + "@mq.internal/v'"},
		"remote of git":              {"clone.sh", "git clone https://bot:" + forty + "@git.internal/a.git"},
		"ADO.NET":                    {"appsettings.json", `"Default": "Server=tcp:a.database.windows.net,1433;User ID=sa;Password=` + password + `;Encrypt=True"`},
		"Azure's account":            {"a.json", `"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=` + noise(alnum, 86) + `==;EndpointSuffix=core.windows.net"`},
		"Azure's bus":                {"a.cs", `"Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=` + noise(alnum, 43) + `="`},
		"Azure's client":             {"app.cs", `secret: "aB3` + "8Q~" + noise(alnum, 34) + `"`},
		"JWT":                        {"session.txt", "Authorization: Bearer " + jwt() + "\n"},
		"JWT of documentation":       {"login.js", jwtIO()},
		"JWT in documentation":       {"README.md", jwt()},
		"Discord":                    {"bot.py", `client.run("MT` + noise(alnum, 22) + "." + noise(alnum, 6) + "." + noise(alnum, 38) + `")`},
		"Discord's hook":             {"ci.yml", "url: https://discord.com/api/webhooks/" + noise(digits, 18) + "/" + noise(alnum, 68)},
		"SendGrid":                   {"mail.py", `key = "SG.` + noise(alnum, 22) + "." + noise(alnum, 43) + `"`},
		"Twilio":                     {"sms.py", `TWILIO_AUTH_TOKEN = "` + noise(hexa, 32) + `"`},
		"Twilio, by position":        {"sms.py", "from twilio.rest import Client\nClient(\"AC" + noise(hexa, 32) + `", "` + noise(hexa, 32) + `")`},
		"Twilio's key":               {"sms.js", "const sid = 'SK" + noise(hexa, 32) + "'"},
		"Slack's hook":               {"notify.sh", "curl https://hooks.slack.com/services/T" + noise(capital, 8) + "/B" + noise(capital, 10) + "/" + noise(alnum, 24)},
		"Slack's bot":                {"a.py", "xoxb-" + noise(digits, 12) + "-" + noise(digits, 12) + "-" + noise(alnum, 24)},
		"GitHub":                     {"a.go", `const t = "ghp_` + noise(alnum, 36) + `"`},
		"GitHub, fine-grained":       {"a.go", `"github_pat_` + noise(alnum, 82) + `"`},
		"GitLab":                     {".gitlab-ci.yml", "token: glpat-" + noise(alnum, 20)},
		"Stripe":                     {"pay.rb", "Stripe.api_key = 'sk_live_" + noise(alnum, 24) + "'"},
		"OpenAI":                     {"a.py", "key='sk-proj-" + noise(alnum+"_", 48) + "'"},
		"Anthropic":                  {"a.py", "key='sk-ant-api03-" + noise(alnum+"_", 93) + "AA'"},
		"OpenRouter":                 {"a.py", "key='sk-or-v1-" + noise(hexa, 64) + "'"},
		"Groq":                       {"a.py", "gsk_" + noise(alnum, 52)},
		"Hugging Face":               {"a.py", "hf_" + noise(alnum, 34)},
		"Google":                     {"map.js", `key: "AIza` + noise(alnum, 35) + `"`},
		"Google's client":            {"client.json", `{"client_secret": "GOCSPX-` + noise(alnum, 28) + `"}`},
		"Vault":                      {"a.sh", "vault login hvs." + noise(alnum+"_", 95)},
		"PyPI":                       {"publish.sh", "pypi-AgEIcHlwaS5vcmc" + noise(alnum, 100)},
		"PyPI's file":                {".pypirc", ""},
		"netrc":                      {".netrc", "machine a login b password c"},
		"Postgres' file":             {".pgpass", ""},
		"MySQL's file":               {".my.cnf", ""},
		"git":                        {".git-credentials", ""},
		"htpasswd":                   {"etc/.htpasswd", ""},
		"SSH by name":                {"home/id_ed25519", ""},
		"SSH of a token":             {".ssh/id_ed25519_sk", ""},
		"SSH":                        {"deploy.txt", "see\n" + private("OPENSSH ", "\n")},
		"RSA":                        {"server.pem", private("RSA ", "\r\n")},
		"RSA, indented":              {"values.yaml", "tls:\n  key: |\n    " + private("RSA ", "\n    ")},
		"RSA, encrypted":             {"k", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC," + noise(hexa, 32) + "\n\n" + noise(alnum, 64)},
		"key of a block":             {"k", "\n-----BEGIN PGP PRIVATE KEY BLOCK-----\r\nVersion: 1\r\n"},
		"key without its end":        {"k.pem", "-----BEGIN RSA PRIVATE KEY-----\nabc"},
		"age":                        {"key.txt", "AGE-SECRET-KEY-1" + noise("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)},
		"PuTTY":                      {"a.ppk", ""},
		"PKCS 12":                    {"a.p12", ""},
		"Java":                       {"release.keystore", ""},
		"KeePass":                    {"a.kdbx", ""},
		"Rails":                      {"config/master.key", noise(hexa, 32)},
		"Ansible":                    {".vault_pass", ""},
		"cargo":                      {".cargo/credentials.toml", ""},
		"rclone":                     {"rclone.conf", ""},
		"GitHub's client":            {".config/gh/hosts.yml", ""},
		"Functions of Azure":         {"local.settings.json", `{}`},
		"Composer":                   {"auth.json", `{"http-basic": {"repo.example.com": {"username": "u", "password": "` + password + `"}}}`},
		"Maven":                      {".m2/settings.xml", "<server><password>" + password + "</password></server>"},
		"WireGuard":                  {"wg0.conf", "[Interface]\nPrivateKey = " + noise(alnum, 43) + "=\n"},
		"second of two":              {"a", "AKIAIOSFODNN7EXAMPLE and AKIA" + noise(capital, 16)},
		"at the end of a long file":  {"a.log", strings.Repeat("all is well.\n", 9000) + "ghp_" + noise(alnum, 36)},
		"in a line of a megabyte":    {"bundle.js", strings.Repeat("x ", 400_000) + "sk_live_" + noise(alnum, 24)},
		"upper case of a name":       {"PROD.ENV", "A=1"},
		"Windows' line ends in .env": {"app.env", "A=1\r\nSECRET=" + password + "\r\n"},
	} {
		if !SecretFile(f.name, []byte(f.content)) {
			sent = append(sent, kind+": "+f.name)
		}
	}
	require.Empty(t, sent)
}

// What stands beside such files in a repository travels: their examples, templates and
// documentation, and code that handles secrets.
func TestSecretFile_innocentTwins(t *testing.T) {
	t.Parallel()
	mention := "case strings.HasPrefix(s, \"-----BEGIN RSA PRIVATE KEY-----\"):\n" + strings.Repeat("\tfmt.Println(s)\n", 9) + `"-----END RSA PRIVATE KEY-----"`
	var kept []string
	for kind, f := range map[string]file{
		"example":                    {".env.example", "API_KEY=\n"},
		"sample":                     {".env.sample", "API_KEY=your-key-here\n"},
		"named example":              {"prod.env.example", "A=1"},
		"example by name":            {"example.env", "A=1"},
		"sample by name":             {"config/sample.env", "A=1"},
		"no environment":             {"environment.go", "package environment"},
		"named env":                  {"env", "A=1"},
		"a directory's file":         {"env/main.py", "import os"},
		"public key":                 {"id_ed25519.pub", "ssh-ed25519 AAAA" + noise(alnum, 60)},
		"certificate":                {"cert.pem", "-----BEGIN CERTIFICATE-----\n" + noise(alnum, 64)},
		"public key in PEM":          {"k.pem", "-----BEGIN PUBLIC KEY-----\n" + noise(alnum, 64)},
		"header alone":               {"header.txt", "-----BEGIN PRIVATE KEY-----"},
		"mention of a key":           {"parse.go", mention},
		"key left out":               {"README.md", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"},
		"service account's form":     {"docs/sa.json", `{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\nYOUR KEY\n-----END PRIVATE KEY-----\n"}`},
		"npm with a variable":        {".npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n"},
		"npm with a short variable":  {".npmrc", "//registry.npmjs.org/:_authToken=$NPM_TOKEN\n"},
		"npm without one":            {".npmrc", "registry=https://npm.example.com\nsave-exact=true\n"},
		"yarn with a variable":       {".yarnrc.yml", "npmAuthToken: \"${NPM_TOKEN:-}\"\nnodeLinker: node-modules\n"},
		"chart":                      {"chart/templates/secrets.yaml", "kind: Secret\ndata:\n  password: {{ .Values.password | b64enc | quote }}\n"},
		"secrets by reference":       {"secrets.yaml", "db_password: ${DB_PASSWORD}\napi: <%= ENV['KEY'] %>\nold: ENC[AES256_GCM,data:" + noise(alnum, 20) + "]\nlast: !vault |\n"},
		"secrets of sops":            {"secrets.enc.yaml", "password: ENC[AES256_GCM,data:" + noise(alnum, 20) + ",iv:x,tag:y,type:str]\n"},
		"external secret":            {"es.yaml", "kind: ExternalSecret\nspec:\n  secretStoreRef:\n    name: vault-backend-of-production\n"},
		"reference to a secret":      {"pod.yaml", "kind: Pod\nenv:\n- name: A\n  valueFrom:\n    secretKeyRef: {name: databasecredentials, key: databasepassword}\n"},
		"WordPress' sample":          {"wp-config-sample.php", "define( 'DB_PASSWORD', 'password_here' );\ndefine( 'AUTH_KEY', 'put your unique phrase here' );"},
		"WordPress with variables":   {"wp-config.php", "define( 'DB_PASSWORD', getenv('DB_PASSWORD') );"},
		"AWS' example":               {"README.md", "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"},
		"AWS by name":                {"s3.py", "aws_secret_access_key=os.environ[\"AWS_SECRET_ACCESS_KEY_OF_THE_DEPLOYMENT_ROLE\"]"},
		"address in documentation":   {"README.md", "postgres://user:password@localhost/db, mysql://root:root@127.0.0.1, redis://:pass@host:6379, mongodb://USER:PASSWORD@HOST"},
		"address with variables":     {"compose.yaml", "URL: postgres://app:${DB_PASSWORD}@db/app\nB: mysql://$USER:$PASS@db\nC: amqp://{user}:{password}@{host}\nD: http://%s:%s@%s"},
		"address, templated":         {"a.tpl", "postgres://{{ .User }}:{{ .Password }}@db and redis://:<password>@h and postgres://u:***@h and http://u:xxxxxxxx@h"},
		"address of an example":      {"url_test.py", "https://user:pa55w0rd-9@example.com/ and ftp://u:S3cr3t-77@ftp.example.org and http://a:b1c2d3e4f5@proxy.test:80"},
		"server of a test":           {"run.sh", "A=http://minio:minio123@localhost:9000 B=http://foo:foo12345@127.0.0.1:9001/ C=http://elastic:MagicWord@127.0.0.1"},
		"address without a password": {"a.go", "https://github.com/a/b@v1.2.3 and git@github.com:a/b.git and http://localhost:8080/@user and https://[::1]:9090/x@y"},
		"port and at sign":           {"a.js", "https://unpkg.com:443/react@18.2.0/umd, https://cdn.jsdelivr.net/npm/a@1.2.3"},
		"emulator":                   {"a.json", "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="},
		"ADO.NET with a variable":    {"a.json", `"Server=db;User Id=sa;Password=${SA_PASSWORD};" "Server=db;Password=<your password>;" "Server=db;Password=password;"`},
		"JWT of documentation":       {"README.md", jwtIO()},
		"file of gitleaks' list":     {"node_modules/a/index.js", "ghp_" + noise(alnum, 36)},
		"Discord by name":            {"bot.py", `client.run(os.environ["DISCORD_TOKEN"])`},
		"Twilio's account":           {"sms.py", `account = "AC` + noise(hexa, 32) + `"`},
		"placeholder":                {"README.md", "sk-" + strings.Repeat("x", 48) + " ghp_" + strings.Repeat("x", 36) + " hf_" + strings.Repeat("0", 40)},
		"placeholder in part":        {"README.md", "ghp_xxxxxxxxxxxxxabc" + strings.Repeat("x", 20)},
		"short":                      {"a.go", "sk-short ghp_" + noise(alnum, 30) + " "},
		"style":                      {"a.css", ".task-list-with-a-very-long-class-name-that-goes-on-and-on {}"},
		"inside a word":              {"a.go", "wordAKIA" + noise(capital, 16)},
		"hash":                       {"go.sum", "example.com/a v1.0.0 h1:" + noise(alnum, 43) + "="},
		"integrity":                  {"package-lock.json", `"integrity": "sha512-` + noise(alnum, 86) + `=="`},
		"commit":                     {"ci.yml", "uses: actions/checkout@" + noise(hexa, 40)},
		"method of 24 letters":       {"api.go", "\ts.S3DestinationDescription = v\n\ts.CustomerManagedS3Storage()\n"},
		"environment of a test":      {"tests/fixtures/.env", "FOO=BAR"},
		"plain":                      {"main.go", "package main\n"},
		"nothing":                    {"", ""},
		"a directory's name":         {"kubeconfig-tools/main.c", ""},
		"a directory of parts":       {".env.d/readme", ""},
		"code of a name":             {"kubeconfig.go", "package kubeconfig"},
		"docker's settings":          {"config.json", `{"auths": {}}`},
		"docker's, by reference":     {"config.json", `{"auths": {"ghcr.io": {"auth": "${AUTH}"}}}`},
		"Maven with a variable":      {"settings.xml", "<password>${env.PASSWORD}</password>"},
		"variables of terraform":     {"variables.tf", `variable "db_password" { type = string }`},
		"values of terraform":        {"prod.tfvars", "region = \"eu-west-1\"\npassword_length = 16\ndb_password = var.db_password\n"},
		"keystore's code":            {"keystore", ""},
		"another key of a name":      {"config/monkey.key", ""},
	} {
		if SecretFile(f.name, []byte(f.content)) {
			kept = append(kept, kind+": "+f.name)
		}
	}
	require.Empty(t, kept)
	require.False(t, SecretFile("big", append([]byte(private("", "\n")), make([]byte, maxScanned)...)), "contents above a mebibyte are not searched")
}
