// What a Java program does with a cluster through Lettuce: java InCluster PORT..., those of three primaries and of their replicas
import io.lettuce.core.KeyValue;
import io.lettuce.core.MigrateArgs;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.async.RedisAdvancedClusterAsyncCommands;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class InCluster {
    static final List<RedisCommands<String, String>> nodes = new ArrayList<>();
    static final List<Integer> ports = new ArrayList<>();

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        for (long end = System.nanoTime() + 20_000_000_000L; !holds.getAsBoolean(); Thread.sleep(5)) {
            check(System.nanoTime() < end, what);
        }
    }

    // GETs that the replicas have served.
    static int reads() {
        int sum = 0;
        for (int at = 3; at < 6; at++) {
            Matcher found = Pattern.compile("cmdstat_get:calls=(\\d+)").matcher(nodes.get(at).info("commandstats"));
            sum += found.find() ? Integer.parseInt(found.group(1)) : 0;
        }
        return sum;
    }

    static void open(int slot, int source, int target) {
        nodes.get(target).clusterSetSlotImporting(slot, nodes.get(source).clusterMyId());
        nodes.get(source).clusterSetSlotMigrating(slot, nodes.get(target).clusterMyId());
    }

    static void close(int slot, int source, int target) {
        migrate(source, target, nodes.get(source).clusterGetKeysInSlot(slot, 100));
        String id = nodes.get(target).clusterMyId();
        nodes.get(target).clusterSetSlotNode(slot, id);
        nodes.get(source).clusterSetSlotNode(slot, id);
    }

    static void migrate(int source, int target, List<String> keys) {
        nodes.get(source).migrate("127.0.0.1", ports.get(target), 0, 5000, MigrateArgs.Builder.keys(keys));
    }

    static void messages(RedisClusterClient client, RedisAdvancedClusterCommands<String, String> commands) throws InterruptedException {
        LinkedBlockingQueue<String> got = new LinkedBlockingQueue<>();
        try (StatefulRedisClusterPubSubConnection<String, String> listener = client.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void smessage(String from, String message) {
                    got.add(from + " " + message);
                }
            });
            for (int index = 0; index < 6; index++) {
                String channel = "channel:" + index;
                listener.sync().ssubscribe(channel);
                until("a subscriber", () -> commands.spublish(channel, "text") == 1);
                check((channel + " text").equals(got.poll(20, TimeUnit.SECONDS)), "a message of " + channel);
            }
        }
    }

    // A slot on its way, and gone: ASK, then MOVED; and back.
    static void moveSlot(RedisAdvancedClusterCommands<String, String> commands) {
        String tag = "";
        int slot = 16384;
        for (int number = 0; slot > 5460; number++) {
            tag = "{" + number + "}";
            slot = nodes.get(0).clusterKeyslot(tag).intValue();
        }
        commands.set(tag + ":here", "1");
        commands.set(tag + ":gone", "2");
        open(slot, 0, 1);
        migrate(0, 1, List.of(tag + ":gone"));
        commands.set(tag + ":new", "3");
        check(nodes.get(1).clusterCountKeysInSlot(slot) == 2, "a key that was set by ASK");
        look(commands, tag);
        close(slot, 0, 1);
        look(commands, tag);
        open(slot, 1, 0);
        look(commands, tag);
        close(slot, 1, 0);
        look(commands, tag);
    }

    static void look(RedisAdvancedClusterCommands<String, String> commands, String tag) {
        int value = 1;
        for (String name : List.of("here", "gone", "new")) {
            check(String.valueOf(value++).equals(commands.get(tag + ":" + name)), name);
        }
    }

    static void exercise(RedisClusterClient client) throws Exception {
        StatefulRedisClusterConnection<String, String> connection = client.connect();
        RedisAdvancedClusterCommands<String, String> commands = connection.sync();
        check(client.getPartitions().size() == 6, client.getPartitions());
        check(commands.upstream().size() == 3 && commands.replicas().size() == 3, "primaries and replicas");
        // What is sent without waiting is a pipeline to each node.
        RedisAdvancedClusterAsyncCommands<String, String> async = connection.async();
        Map<String, RedisFuture<String>> replies = new LinkedHashMap<>();
        for (int index = 0; index < 300; index++) {
            String name = "key:" + index;
            async.set(name, name);
            async.append(name, "+");
            replies.put(name, async.get(name));
        }
        for (Map.Entry<String, RedisFuture<String>> reply : replies.entrySet()) {
            check((reply.getKey() + "+").equals(reply.getValue().get(20, TimeUnit.SECONDS)), "a pipeline over all slots");
            check((reply.getKey() + "+").equals(commands.get(reply.getKey())), reply.getKey());
        }
        for (RedisCommands<String, String> primary : nodes.subList(0, 3)) {
            check(primary.dbsize() > 50, "keys on every node");
        }
        commands.mset(Map.of("{tag}:1", "a", "{tag}:2", "b"));
        List<KeyValue<String, String>> many = commands.mget("{tag}:1", "missing{tag}", "{tag}:2", "key:1");
        check(many.get(0).getValue().equals("a") && !many.get(1).hasValue() && many.get(3).getValue().equals("key:1+"), many);
        String script = "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}";
        List<Long> counts = commands.eval(script, ScriptOutputType.MULTI, new String[] {"{s}:1", "{s}:2"}, "5");
        check(List.of(5L, 1L).equals(counts), counts);
        messages(client, commands);
        until("replicas", () -> {
            for (int at = 0; at < 3; at++) {
                if (!nodes.get(at).dbsize().equals(nodes.get(at + 3).dbsize())) {
                    return false;
                }
            }
            return true;
        });
        int before = reads();
        connection.setReadFrom(ReadFrom.REPLICA);
        for (String name : replies.keySet()) {
            check((name + "+").equals(commands.get(name)), "a read of a replica");
        }
        check(reads() >= before + 300, "reads of replicas");
        connection.setReadFrom(ReadFrom.UPSTREAM);
        moveSlot(commands);
        check(commands.clusterShards().size() == 3 && commands.clusterSlots().size() == 3, commands.clusterShards());
        check(commands.clusterLinks().size() == 10, commands.clusterLinks());
    }

    public static void main(String[] arguments) throws Exception {
        RedisClient plain = RedisClient.create();
        for (String port : arguments) {
            ports.add(Integer.parseInt(port));
            nodes.add(plain.connect(RedisURI.create("127.0.0.1", Integer.parseInt(port))).sync());
        }
        for (RedisCommands<String, String> primary : nodes.subList(0, 3)) {
            primary.flushall();
        }
        RedisClusterClient client = RedisClusterClient.create(RedisURI.create("127.0.0.1", ports.get(0)));
        exercise(client);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        plain.shutdown(0, 1, TimeUnit.SECONDS);
        System.out.println("lettuce: a cluster works");
    }
}
