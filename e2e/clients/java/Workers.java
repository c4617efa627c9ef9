// What the loops of Java's clients share; the head of xtask/src/loops.rs says what a loop does and prints.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

public class Workers {
    // The client's own commands. Threads share it.
    public interface Client {
        void set(String key, String value) throws Exception;

        String get(String key) throws Exception;

        void del(String key) throws Exception;
    }

    static final int[][] TAGS = {{3, 7, 10, 11}, {1, 2, 5, 6}, {0, 4, 8, 13}};
    static final int KEYS = 64;

    static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static final class Worker implements Runnable {
        private final Client client;
        private final int group;
        private final String[] keys = new String[KEYS];
        private final Map<String, Integer> acknowledged = new HashMap<>();
        private final Map<String, Set<Integer>> unknown = new HashMap<>();
        private long writes;
        private long reads;
        private long gap;
        private long gapAt = System.currentTimeMillis();
        private long last = System.currentTimeMillis();

        Worker(Client client, String name, int group) {
            this.client = client;
            this.group = group;
            for (int at = 0; at < KEYS; at++) {
                keys[at] = "{" + TAGS[group][at % 4] + "}:" + name + ":" + at;
            }
        }

        private synchronized void succeeded(boolean isWrite) {
            writes += isWrite ? 1 : 0;
            reads += isWrite ? 0 : 1;
            look();
            last = System.currentTimeMillis();
        }

        private void look() {
            long since = System.currentTimeMillis() - last;
            if (since > gap) {
                gap = since;
                gapAt = last;
            }
        }

        synchronized long[] report() {
            look();
            long[] found = {writes, reads, gap, gapAt};
            writes = 0;
            reads = 0;
            gap = 0;
            return found;
        }

        private void failed(String what, Throwable error) {
            String text = error.getClass().getSimpleName() + ": " + error.getMessage();
            if (error.getCause() != null) {
                text += " / " + error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
            }
            text = text.replaceAll("\\s+", " ");
            tell("error " + System.currentTimeMillis() + " " + group + " " + what + " " + text.substring(0, Math.min(200, text.length())));
        }

        @Override
        public void run() {
            for (int count = 1;; count++) {
                String key = keys[count % KEYS];
                try {
                    client.set(key, key + "#" + count);
                    acknowledged.put(key, count);
                    succeeded(true);
                } catch (Exception error) {
                    unknown.computeIfAbsent(key, any -> new HashSet<>()).add(count);
                    failed("SET", error);
                }
                String other = keys[(count + KEYS / 2) % KEYS];
                try {
                    String found = client.get(other);
                    succeeded(false);
                    judge(other, found);
                } catch (Exception error) {
                    failed("GET", error);
                }
                try {
                    Thread.sleep(2);
                } catch (InterruptedException error) {
                    return;
                }
            }
        }

        private void judge(String key, String found) {
            if (found != null && !found.startsWith(key + "#")) {
                tell("wrong " + System.currentTimeMillis() + " " + group + " " + key + " " + found);
                return;
            }
            int number = found == null ? 0 : Integer.parseInt(found.substring(key.length() + 1));
            int expected = acknowledged.getOrDefault(key, 0);
            if (number != expected && !unknown.getOrDefault(key, Set.of()).contains(number)) {
                tell("lost " + System.currentTimeMillis() + " " + group + " " + key + " " + number + " in place of " + expected);
                acknowledged.put(key, number);
            }
        }
    }

    // Runs until the input ends, and then ends the program.
    static void run(Client client, String name, String version) throws Exception {
        List<Worker> workers = new ArrayList<>();
        for (int group = 0; group < 3; group++) {
            Worker worker = new Worker(client, name, group);
            for (String key : worker.keys) {
                client.del(key);
            }
            workers.add(worker);
        }
        for (Worker worker : workers) {
            Thread thread = new Thread(worker);
            thread.setDaemon(true);
            thread.start();
        }
        tell("ready " + version);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            long[] sum = {0, 0, -1, 0};
            for (Worker worker : workers) {
                long[] found = worker.report();
                sum[0] += found[0];
                sum[1] += found[1];
                if (found[2] > sum[2]) {
                    sum[2] = found[2];
                    sum[3] = found[3];
                }
            }
            tell("report " + sum[0] + " " + sum[1] + " " + sum[2] + " " + sum[3]);
        }
        System.exit(0);
    }
}
