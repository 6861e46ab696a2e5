package edge

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestPostgres runs the control plane with the flags of the example's page for Postgres: what it stores is there, also
// after a restart, and nothing is in a file of SQLite.
func TestPostgres(t *testing.T) {
	dsn, flags := pgserver.Database(t), pages.Own(t, "bin/edge")
	p := newPlane(t, pages.Replace(t, flags, "postgres://edge@db.example:5432/edge", dsn)...)
	p.start()
	maps := p.clients().CoreV1().ConfigMaps("default")
	created, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"text": "hello"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		got, err := maps.Get(t.Context(), "greeting", metav1.GetOptions{})
		if err != nil || got.Data["text"] != "hello" || got.UID != created.UID ||
			got.ResourceVersion != created.ResourceVersion {
			t.Errorf("the ConfigMap is %v, %v; want %v", got, err, created)
		}
	}
	read()
	if ended := p.end(t, syscall.SIGTERM); !ended.Success() {
		t.Errorf("after SIGTERM: %v", ended)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	var key string
	err = conn.QueryRow(t.Context(), "SELECT key_text FROM objects WHERE name = 'greeting'").Scan(&key)
	if err != nil || key != "/registry/configmaps/default/greeting" {
		t.Errorf("Postgres has the key %q, %v", key, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if files, err := filepath.Glob(filepath.Join(p.dir, "*.db*")); err != nil || len(files) > 0 {
		t.Errorf("files of SQLite: %q, %v", files, err)
	}
	p.start()
	read()
}
